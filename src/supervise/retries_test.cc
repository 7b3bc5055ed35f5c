#include "supervise/retries.h"

#include <gtest/gtest.h>

namespace paramedic::supervise {
namespace {

using Kind = RetryDecision::Kind;

Json failure(const char* category, const char* retry, const char* place = "train.main") {
  return {{"category", category},
          {"mechanism", "m"},
          {"retry", retry},
          {"retry_reason", "because"},
          {"fingerprint", std::string(category) + ":" + place + ":m"}};
}

RetryOptions up_to(int limit) {
  RetryOptions options;
  options.limit = limit;
  return options;
}

TEST(Retries, only_what_a_restart_can_help_is_started_again) {
  EXPECT_EQ(Retries(up_to(3)).decide(failure("network", "after_delay"), 5).kind, Kind::kAgain);
  EXPECT_EQ(Retries(up_to(3)).decide(failure("filesystem_race", "same_node"), 5).kind,
            Kind::kAgain);
  EXPECT_EQ(Retries(up_to(3)).decide(failure("key_not_found", "never"), 5).kind, Kind::kEnd);
  EXPECT_EQ(Retries(up_to(3)).decide(failure("native_crash", "unknown"), 5).kind, Kind::kEnd);
  EXPECT_EQ(Retries(up_to(3)).decide(nullptr, -1).kind, Kind::kEnd);
}

TEST(Retries, what_is_worth_one_can_be_named) {
  RetryOptions options = up_to(3);
  options.on = {"unknown", "key_not_found"};
  EXPECT_EQ(Retries(options).decide(failure("native_crash", "unknown"), 5).kind, Kind::kAgain);
  EXPECT_EQ(Retries(options).decide(failure("key_not_found", "never"), 5).kind, Kind::kAgain);
  EXPECT_EQ(Retries(options).decide(failure("network", "after_delay"), 5).kind, Kind::kEnd);
}

TEST(Retries, the_same_failure_without_progress_ends_them) {
  Retries retries(up_to(9));
  EXPECT_EQ(retries.decide(failure("filesystem_race", "same_node"), 5).kind, Kind::kAgain);
  EXPECT_EQ(retries.decide(failure("filesystem_race", "same_node"), 9).kind, Kind::kAgain);
  const RetryDecision last = retries.decide(failure("filesystem_race", "same_node"), 9);
  EXPECT_EQ(last.kind, Kind::kEnd);
  EXPECT_NE(last.line.find("no farther"), std::string::npos);
}

TEST(Retries, another_failure_is_no_repetition) {
  Retries retries(up_to(9));
  EXPECT_EQ(retries.decide(failure("filesystem_race", "same_node", "a"), 5).kind, Kind::kAgain);
  EXPECT_EQ(retries.decide(failure("filesystem_race", "same_node", "b"), 5).kind, Kind::kAgain);
}

TEST(Retries, there_are_never_more_than_was_said) {
  Retries retries(up_to(2));
  for (int64_t steps : {10, 20}) {
    EXPECT_EQ(retries.decide(failure("network", "after_delay"), steps).kind, Kind::kAgain);
  }
  EXPECT_EQ(retries.decide(failure("network", "after_delay"), 30).kind, Kind::kEnd);
}

TEST(Retries, the_delay_doubles_up_to_its_limit_and_a_collision_needs_none) {
  Retries retries(up_to(20));
  double delay_s = 10;
  for (int64_t steps = 0; steps < 12; ++steps) {
    EXPECT_EQ(retries.decide(failure("network", "after_delay"), steps).delay_s, delay_s);
    delay_s = std::min(2 * delay_s, 600.0);
  }
  EXPECT_EQ(retries.decide(failure("filesystem_race", "same_node"), 90).delay_s, 1);
}

TEST(Retries, a_faulty_node_is_left_where_another_one_can_be_asked_for) {
  RetryOptions options = up_to(3);
  EXPECT_EQ(Retries(options).decide(failure("gpu_hardware", "other_node"), 5).kind, Kind::kEnd);
  options.asks_for_other_node = true;
  EXPECT_EQ(Retries(options).decide(failure("gpu_hardware", "other_node"), 5).kind,
            Kind::kOtherNode);
}

TEST(Retries, what_somebody_stopped_stays_stopped) {
  RetryOptions options = up_to(3);
  options.on = {"any"};
  EXPECT_EQ(Retries(options).decide(failure("user_cancelled", "never"), 5).kind, Kind::kEnd);
}

}  // namespace
}  // namespace paramedic::supervise
