#include "diagnose/run.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "base/test_folder.h"
#include "diagnose/diagnose.h"

namespace paramedic::diagnose {
namespace {

constexpr const char* kTraceback =
    "Traceback (most recent call last):\n"
    "  File \"/job/train.py\", line 4, in <module>\n"
    "    main()\n"
    "KeyError: 'beam'\n";

Verdict ended(const std::string& log, const Ending& ending) {
  const TemporaryFolder folder;
  write_file(folder.path() + "/job.log", log);
  return diagnose_ended({folder.path()}, ending)->verdict;
}

TEST(Run, a_signal_is_the_cause_where_the_log_tells_none) {
  EXPECT_EQ(name(ended("step 3\n", {{}, SIGSEGV, ""}).category), "native_crash");
  EXPECT_EQ(name(ended("step 3\n", {{}, SIGABRT, ""}).category), "native_crash");
  EXPECT_EQ(name(ended("", {{}, SIGKILL, ""}).category), "cpu_out_of_memory");
  EXPECT_EQ(name(ended("", {{}, SIGINT, ""}).category), "user_cancelled");
  EXPECT_EQ(name(ended("", {{}, SIGTERM, ""}).category), "preempted");
  EXPECT_EQ(name(ended("", {{}, SIGXCPU, ""}).category), "time_limit");
  const Verdict verdict = ended("step 3\n", {{}, SIGSEGV, ""});
  ASSERT_FALSE(verdict.evidence.empty());
  EXPECT_EQ(verdict.evidence.front().file, "exit status");
}

TEST(Run, what_the_log_tells_is_the_cause_of_a_signal) {
  EXPECT_EQ(name(ended(kTraceback, {{}, SIGABRT, ""}).category), "key_not_found");
}

TEST(Run, a_job_that_ended_well_has_not_failed_whatever_its_log_says) {
  EXPECT_EQ(name(ended(kTraceback, {0, {}, ""}).category), "no_failure");
}

TEST(Run, a_job_that_ended_badly_has_failed_whatever_its_log_says) {
  const Verdict done = ended("step 3 loss 0.1\nTraining finished.\n", {3, {}, ""});
  EXPECT_EQ(name(done.category), "unknown");
  EXPECT_NE(done.title.find("exit code 3"), std::string::npos);
  EXPECT_FALSE(done.collect_next.empty());
  EXPECT_EQ(name(ended("", {1, {}, ""}).category), "unknown");
}

TEST(Run, a_command_that_could_not_be_started_is_known_by_what_was_said) {
  EXPECT_EQ(name(ended("", {127, {}, "trian.py: command not found"}).category),
            "library_not_found");
  EXPECT_EQ(name(ended("", {126, {}, "./run.sh: Permission denied"}).category),
            "permission_denied");
}

TEST(Run, a_run_folder_is_judged_by_its_logs_and_its_end) {
  const TemporaryFolder folder;
  write_file(folder.path() + "/r/run.json",
             R"({"status": "failed", "exit_code": null, "signal": 11})");
  write_file(folder.path() + "/r/logs/rank-0.err", "step 3 loss 0.1\n");
  write_file(folder.path() + "/r/stats/rank-0-0.arrows", kTraceback);
  const auto diagnosis = diagnose_paths({folder.path() + "/r"});
  ASSERT_TRUE(diagnosis.ok());
  EXPECT_EQ(name(diagnosis->verdict.category), "native_crash");
}

TEST(Run, the_one_log_of_a_launcher_does_not_name_the_rank) {
  const TemporaryFolder folder;
  write_file(folder.path() + "/r/run.json", R"({"status": "failed", "exit_code": 1})");
  write_file(folder.path() + "/r/logs/rank-0.err",
             std::string(kTraceback) +
                 "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
                 "Root Cause (first observed failure):\n"
                 "[0]:\n"
                 "  time      : 2026-11-30_03:00:00\n"
                 "  host      : node1\n"
                 "  rank      : 1 (local_rank: 1)\n"
                 "  exitcode  : 1 (pid: 77)\n");
  EXPECT_EQ(diagnose_run(folder.path() + "/r")->verdict.first_failing_rank, 1);
}

TEST(Run, what_the_job_was_doing_is_told_by_its_output) {
  const TemporaryFolder folder;
  write_file(folder.path() + "/r/run.json", R"({"status": "failed", "exit_code": 1})");
  write_file(folder.path() + "/r/logs/rank-0.out", "Epoch 1: step 30 loss 0.2\n");
  write_file(folder.path() + "/r/logs/rank-0.err", "KeyError: 'beam'\n");
  const Verdict verdict = diagnose_run(folder.path() + "/r")->verdict;
  EXPECT_EQ(name(verdict.category), "key_not_found");
  EXPECT_EQ(name(verdict.stage), "train");
}

TEST(Run, a_paused_run_is_judged_by_the_crash_that_waits) {
  const TemporaryFolder folder;
  write_file(folder.path() + "/r/run.json",
             R"({"status": "paused", "failure": {"where": {"file": "train.py", "line": 7,
                  "function": "load"}, "exception": {"type": "KeyError", "message": "'beam'"}}})");
  write_file(folder.path() + "/r/logs/rank-0.err", "step 3\n");
  const auto diagnosis = diagnose_run(folder.path() + "/r");
  EXPECT_EQ(name(diagnosis->verdict.category), "key_not_found");
  EXPECT_EQ(diagnosis->verdict.where->line, 7);
}

}  // namespace
}  // namespace paramedic::diagnose
