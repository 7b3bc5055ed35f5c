#include "base/status.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace paramedic {
namespace {

Result<int> half(int number) {
  if (number % 2 != 0) return invalid_argument("7 is odd", "give an even number");
  return number / 2;
}

Result<int> quarter(int number) {
  PARAMEDIC_ASSIGN(const int once, half(number));
  return half(once);
}

TEST(Status, shows_message_and_hint) {
  EXPECT_EQ(half(7).status().to_string(), "7 is odd\n  hint: give an even number");
  EXPECT_EQ(Status().to_string(), "ok");
}

TEST(Status, maps_to_the_exit_codes_of_the_contract) {
  EXPECT_EQ(Status().exit_code(), 0);
  EXPECT_EQ(corruption("x").exit_code(), 2);
  EXPECT_EQ(internal_error("x").exit_code(), 70);
}

TEST(Status, names_the_path_and_the_reason_of_an_errno) {
  EXPECT_EQ(errno_error("cannot write", "/a/b", ENOSPC).message(),
            "cannot write /a/b: No space left on device");
  EXPECT_EQ(errno_error("cannot open", "/a/b", ENOENT).code(), StatusCode::kNotFound);
}

TEST(Result, passes_errors_up_and_values_through) {
  EXPECT_EQ(quarter(12).value(), 3);
  EXPECT_EQ(quarter(6).status().code(), StatusCode::kInvalidArgument);
}

TEST(ResultDeathTest, reading_the_value_of_an_error_aborts) {
  EXPECT_DEATH((void)half(7).value(), "");
}

}  // namespace
}  // namespace paramedic
