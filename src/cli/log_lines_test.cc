#include "cli/log_lines.h"

#include <gtest/gtest.h>

#include "base/test_folder.h"
#include "supervise/output_times.h"

namespace paramedic::cli {
namespace {

constexpr int64_t kMs = 1'000'000;

void write(const std::string& path, const std::string& text) {
  ASSERT_TRUE(posix_file_system().write_atomically(path, as_bytes(text)).ok());
}

void write_times(const std::string& log, std::vector<supervise::OutputTime> times) {
  write(supervise::output_times_path(log),
        {reinterpret_cast<const char*>(times.data()), times.size() * sizeof times[0]});
}

std::vector<LoggedLine> lines_of(const std::string& folder, int world_size,
                                 const store::StepTimes& steps = {}) {
  std::vector<LoggedLine> lines;
  const Status status = read_log_lines(folder, world_size, steps, [&](const LoggedLine& line) {
    lines.push_back(line);
    return true;
  });
  EXPECT_TRUE(status.ok()) << status.message();
  return lines;
}

TEST(log_lines, two_files_become_one_stream_by_time_and_prefixes_tell_the_rank) {
  const TemporaryFolder folder;
  const std::string logs = folder.path() + "/logs";
  ASSERT_TRUE(posix_file_system().make_folders(logs).ok());
  write(logs + "/rank-0.out", "start\n[rank3]: loss 0.5\n");
  write_times(logs + "/rank-0.out", {{0, 1000 * kMs}, {6, 3000 * kMs}});
  write(logs + "/rank-0.err", "[rank1]: UserWarning: slow\n");
  write_times(logs + "/rank-0.err", {{0, 2000 * kMs}});
  const auto lines = lines_of(folder.path(), 4);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].text, "start");
  EXPECT_EQ(lines[0].rank, -1);
  EXPECT_EQ(lines[1].text, "UserWarning: slow");
  EXPECT_EQ(lines[1].rank, 1);
  EXPECT_EQ(lines[1].level, diagnose::Level::kWarning);
  EXPECT_EQ(lines[2].text, "loss 0.5");
  EXPECT_EQ(lines[2].rank, 3);
  EXPECT_EQ(lines[2].time_ns, 3000 * kMs);
  EXPECT_EQ(lines_of(folder.path(), 1)[0].rank, 0);
}

TEST(log_lines, all_of_a_traceback_is_an_error_and_what_follows_it_is_not) {
  const TemporaryFolder folder;
  ASSERT_TRUE(posix_file_system().make_folders(folder.path() + "/logs").ok());
  write(folder.path() + "/logs/rank-0.err",
        "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    f()\n"
        "KeyError: 'x'\nnext epoch\n");
  const auto lines = lines_of(folder.path(), 1);
  ASSERT_EQ(lines.size(), 5U);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(lines[i].level, diagnose::Level::kError) << i;
  EXPECT_EQ(lines[4].level, diagnose::Level::kInfo);
}

TEST(log_lines, a_run_without_logs_is_an_error) {
  const TemporaryFolder folder;
  const Status status =
      read_log_lines(folder.path(), 1, {}, [](const LoggedLine&) { return true; });
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace paramedic::cli
