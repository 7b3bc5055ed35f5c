#include "supervise/run_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "supervise/job_harness.h"
#include "supervise/process.h"

namespace paramedic::supervise {
namespace {

// What make_run_name adds to the time.
std::string label(const std::vector<std::string>& command) {
  return make_run_name(command, 1'796'000'000'000'000'000).substr(16);
}

std::string value_of(const Environment& environment, const std::string& key) {
  for (const auto& [name, value] : environment) {
    if (name == key) return value;
  }
  return "(missing)";
}

TEST(run_folder, generated_name_has_the_time_and_what_runs) {
  ::setenv("TZ", "UTC", 1);
  ::tzset();
  EXPECT_EQ(make_run_name({"python", "train.py"}, 1'796'000'000'000'000'000),
            "20261130-005320-train");
  EXPECT_EQ(label({"python", "-u", "src/fit model.py", "--lr", "1"}), "fit-model");
  EXPECT_EQ(label({"torchrun", "--nproc_per_node", "2", "main.py"}), "main");
  EXPECT_EQ(label({"python", "-m", "torch.distributed.run", "-m", "pkg.train"}), "train");
  EXPECT_EQ(label({"./start.sh"}), "start");
  EXPECT_EQ(label({"/usr/bin/"}), "run");
  EXPECT_LE(label({std::string(500, 'x')}).size(), 40U);
}

TEST(run_folder, only_plain_folder_names_are_taken_as_run_names) {
  for (const char* name : {"first", "a.b", "2026_x", "größer"}) {
    EXPECT_TRUE(check_run_name(name).ok()) << name;
  }
  for (const char* name : {"", ".", "..", "a/b", "/a", "-x", ".hidden", "a\nb"}) {
    EXPECT_EQ(check_run_name(name).exit_code(), 2) << name;
  }
}

TEST(run_folder, generated_name_that_exists_gets_a_number) {
  const TemporaryFolder folder;
  const VirtualClock clock(1'796'000'000'000'000'000);
  JobOptions options = job_in(folder, {"python", "train.py"});
  options.name.clear();
  const auto first = plan_run(options, posix_file_system(), clock);
  ASSERT_TRUE(first.ok());
  std::filesystem::create_directory(first.value().dir);
  const auto second = plan_run(options, posix_file_system(), clock);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second.value().dir, first.value().dir + "-2");
  EXPECT_NE(second.value().id, first.value().id);
}

TEST(run_folder, relative_folder_becomes_absolute) {
  JobOptions options;
  options.command = {"true"};
  const auto info = plan_run(options, posix_file_system(), real_clock());
  ASSERT_TRUE(info.ok());
  EXPECT_TRUE(info.value().dir.starts_with(info.value().cwd + "/paramedic-runs/"));
}

TEST(run_folder, python_path_keeps_the_jobs_own_and_never_gains_the_current_folder) {
  JobOptions options;
  options.python_dir = "/p";
  options.overhead_budget = 0.05;
  const auto with = job_environment(options, "/r", "id", "/dev/shm", "/a:/b");
  EXPECT_EQ(value_of(with, "PYTHONPATH"), "/p/paramedic/inject:/a:/b");
  const auto without = job_environment(options, "/r", "id", "/dev/shm", "");
  EXPECT_EQ(value_of(without, "PYTHONPATH"), "/p/paramedic/inject");
  EXPECT_EQ(value_of(without, "PARAMEDIC_RUN"), "/r");
  EXPECT_EQ(value_of(without, "PARAMEDIC_RUN_ID"), "id");
  EXPECT_EQ(value_of(without, "PARAMEDIC_RING_BYTES"), "0");
  EXPECT_EQ(value_of(without, "PARAMEDIC_OVERHEAD_BUDGET"), "0.05");
}

TEST(process, own_process_is_running_and_an_unused_number_is_not) {
  EXPECT_TRUE(is_running(::getpid()));
  EXPECT_GT(start_ticks(::getpid()), 0U);
  EXPECT_FALSE(is_running(0x3fffffff));
}

TEST(process, numbers_are_found_by_the_whole_key) {
  EXPECT_EQ(number_after("oom 5\noom_kill 2\n", "oom_kill"), 2U);
  EXPECT_EQ(number_after("oom_kill 2\noom 5", "oom"), 5U);
  EXPECT_EQ(number_after("MemTotal:   16 kB\n", "MemTotal"), 16U);
  EXPECT_EQ(number_after("", "x"), std::nullopt);
  EXPECT_EQ(number_after("x max\n", "x"), std::nullopt);
}

TEST(process, damaged_stat_lines_are_refused) {
  EXPECT_FALSE(parse_process_stat(""));
  EXPECT_FALSE(parse_process_stat("1 (a) S"));
  EXPECT_FALSE(parse_process_stat(")"));
  EXPECT_FALSE(parse_process_stat("1 (a) S x 1 1 0 -1 0 1 2 3 4 5 6 0 0 20 0 1 0 5000 1 7"));
}

}  // namespace
}  // namespace paramedic::supervise
