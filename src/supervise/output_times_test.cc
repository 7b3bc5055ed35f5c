#include "supervise/output_times.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/test_folder.h"

namespace paramedic::supervise {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

Fd create(const std::string& log) {
  return Fd(::open(output_times_path(log).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND, 0600));
}

TEST(output_times, a_byte_has_the_time_of_the_entry_before_it_and_close_entries_are_left_out) {
  const TemporaryFolder folder;
  const std::string log = folder.path() + "/rank-0.out";
  OutputTimesWriter writer(create(log));
  writer.note(0, 10 * kSecond);
  writer.note(100, 10 * kSecond + 1'000'000);
  writer.note(200, 12 * kSecond);
  const auto times = read_output_times(log);
  ASSERT_EQ(times.size(), 2U);
  EXPECT_EQ(time_at(times, 0), 10 * kSecond);
  EXPECT_EQ(time_at(times, 199), 10 * kSecond);
  EXPECT_EQ(time_at(times, 200), 12 * kSecond);
  EXPECT_EQ(time_at(times, 5000), 12 * kSecond);
  EXPECT_EQ(time_at({}, 5), 0);
}

TEST(output_times, of_a_damaged_file_what_comes_before_the_damage_counts) {
  const TemporaryFolder folder;
  const std::string log = folder.path() + "/rank-0.err";
  const OutputTime entries[] = {{0, 5}, {50, 6}, {20, 7}, {90, 8}};
  const std::string bytes(reinterpret_cast<const char*>(entries), sizeof entries);
  ASSERT_TRUE(
      posix_file_system().write_atomically(output_times_path(log), as_bytes(bytes + "xyz")).ok());
  EXPECT_EQ(read_output_times(log).size(), 2U);
  EXPECT_TRUE(read_output_times(folder.path() + "/none").empty());
}

}  // namespace
}  // namespace paramedic::supervise
