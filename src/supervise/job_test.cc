// The real `run_job` with real processes: what the user sees must be what he would have seen.
#include "supervise/job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <random>
#include <sstream>

#include "base/json.h"
#include "supervise/job_harness.h"

namespace paramedic::supervise {
namespace {

std::string random_bytes(size_t count, unsigned int seed) {
  std::mt19937 random(seed);
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

Json run_json(const TemporaryFolder& folder) {
  auto json = parse_json(read_file(folder.path() + "/run/run.json"), "run.json");
  return json.ok() ? std::move(json).value() : Json();
}

TEST(job, exit_code_is_the_commands_own) {
  for (const int code : {0, 1, 3, 75, 255}) {
    const TemporaryFolder folder;
    PipedJob job(shell_job_in(folder, "exit " + std::to_string(code)));
    EXPECT_EQ(job.wait(), code);
    EXPECT_EQ(run_json(folder)["status"], code == 0 ? "finished" : "failed");
    EXPECT_EQ(run_json(folder)["exit_code"], code);
  }
}

TEST(job, death_by_a_signal_is_128_plus_its_number) {
  for (const int signal : {SIGKILL, SIGSEGV, SIGTERM}) {
    const TemporaryFolder folder;
    PipedJob job(shell_job_in(folder, "kill -" + std::to_string(signal) + " $$"));
    EXPECT_EQ(job.wait(), 128 + signal);
    EXPECT_EQ(run_json(folder)["signal"], signal);
    EXPECT_TRUE(run_json(folder)["failure"].is_object());
  }
}

TEST(job, failed_run_says_why_by_what_its_job_wrote) {
  const TemporaryFolder folder;
  PipedJob job(shell_job_in(
      folder, "echo 'Epoch 2: step 9 loss 0.3'; echo \"KeyError: 'beam'\" >&2; exit 1"));
  EXPECT_EQ(job.wait(), 1);
  const Json failure = run_json(folder)["failure"];
  EXPECT_EQ(failure["category"], "key_not_found");
  EXPECT_EQ(failure["stage"], "train");
}

TEST(job, run_whose_command_could_not_be_started_says_why) {
  const TemporaryFolder folder;
  PipedJob job(job_in(folder, {"no-such-command-here"}));
  EXPECT_EQ(job.wait(), 127);
  EXPECT_EQ(run_json(folder)["failure"]["category"], "library_not_found");
}

TEST(job, run_that_ended_well_has_no_failure_whatever_it_wrote) {
  const TemporaryFolder folder;
  PipedJob job(shell_job_in(folder, "echo \"KeyError: 'beam'\" >&2"));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_TRUE(run_json(folder)["failure"].is_null());
}

TEST(job, command_that_does_not_exist_answers_as_a_shell_does) {
  const TemporaryFolder folder;
  PipedJob job(job_in(folder, {"no-such-command-here"}));
  EXPECT_EQ(job.wait(), 127);
  EXPECT_EQ(job.err(), "paramedic: no-such-command-here: command not found\n");
  EXPECT_EQ(run_json(folder)["exit_code"], 127);
}

TEST(job, command_that_cannot_be_executed_answers_as_a_shell_does) {
  const TemporaryFolder folder;
  PipedJob job(job_in(folder, {"/etc/passwd"}));
  EXPECT_EQ(job.wait(), 126);
  EXPECT_EQ(job.err(), "paramedic: /etc/passwd: Permission denied\n");
}

TEST(job, empty_command_is_a_usage_error) {
  const auto outcome = run_job(JobOptions{});
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.status().exit_code(), 2);
}

TEST(job, run_name_that_is_taken_is_a_usage_error_and_nothing_runs) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() + "/run");
  PipedJob job(shell_job_in(folder, "echo ran"));
  EXPECT_EQ(job.wait(), 2);
  EXPECT_EQ(job.out(), "");
  EXPECT_NE(job.err().find("is taken"), std::string::npos) << job.err();
  EXPECT_NE(job.err().find("hint:"), std::string::npos) << job.err();
}

TEST(job, arguments_arrive_untouched) {
  const TemporaryFolder folder;
  PipedJob job(job_in(folder, {"/usr/bin/printf", "<%s>", "", "a b", "--name", "$HOME", "'\n"}));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.out(), "<><a b><--name><$HOME><'\n>");
  EXPECT_EQ(job.err(), "");
}

TEST(job, binary_input_and_output_pass_unchanged_and_into_the_logs) {
  const TemporaryFolder folder;
  const std::string bytes = random_bytes(1 << 20, 1);
  write_file(folder.path() + "/input", bytes);
  const std::string input = folder.path() + "/input";
  PipedJob job(shell_job_in(folder, "cat " + input + " & cat " + input + " >&2; wait"));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_TRUE(job.out() == bytes);
  EXPECT_TRUE(job.err() == bytes);
  EXPECT_TRUE(read_file(folder.path() + "/run/logs/rank-0.out") == bytes);
  EXPECT_TRUE(read_file(folder.path() + "/run/logs/rank-0.err") == bytes);
}

TEST(job, stdin_is_the_jobs_own) {
  const TemporaryFolder folder;
  PipedJob job(job_in(folder, {"/bin/cat"}));
  job.write_input("first\n");
  job.wait_for_output("first\n");
  job.write_input("second");
  job.close_input();
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.out(), "first\nsecond");
}

TEST(job, order_of_stdout_and_stderr_into_one_file_is_exact) {
  const TemporaryFolder folder;
  PipedJob job(shell_job_in(folder, "for i in 1 2 3 4 5 6 7 8 9; do echo o$i; echo e$i >&2; done"),
               [] { ::dup2(STDOUT_FILENO, STDERR_FILENO); });
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.out(), "o1\ne1\no2\ne2\no3\ne3\no4\ne4\no5\ne5\no6\ne6\no7\ne7\no8\ne8\no9\ne9\n");
}

TEST(job, closed_stream_stays_closed) {
  const TemporaryFolder folder;
  PipedJob job(shell_job_in(folder, "echo x >&1; echo $?; [ -e /proc/self/fd/1 ] || exit 5"),
               [] { ::close(STDOUT_FILENO); });
  EXPECT_EQ(job.wait(), 5);
}

TEST(job, environment_names_the_run_and_puts_our_folder_in_front_of_the_path) {
  const TemporaryFolder folder;
  PipedJob job(shell_job_in(folder, "echo $PARAMEDIC_RUN $PARAMEDIC_PROBE; echo $PYTHONPATH"),
               [] { ::setenv("PYTHONPATH", "/mine", 1); });
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.out(), folder.path() + "/run /nowhere/libparamedic_probe.so\n" +
                           "/nowhere/python/paramedic/inject:/mine\n");
}

TEST(job, job_has_a_process_group_of_its_own_and_default_signals) {
  const TemporaryFolder folder;
  PipedJob job(shell_job_in(folder, "ps -o pgid= -p $$; echo $$; grep SigBlk /proc/self/status"));
  EXPECT_EQ(job.wait(), 0);
  int group = 0;
  int pid = 0;
  std::istringstream(job.out()) >> group >> pid;
  EXPECT_GT(pid, 0);
  EXPECT_EQ(group, pid);
  EXPECT_NE(job.out().find("SigBlk:\t0000000000000000"), std::string::npos) << job.out();
}

TEST(job, signals_are_handed_on_to_the_whole_group) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1}) {
    const TemporaryFolder folder;
    PipedJob job(shell_job_in(folder, fmt::format("trap 'echo got {0}; exit 9' {0}; echo ready; "
                                                  "while :; do sleep 0.05; done",
                                                  signal)));
    job.wait_for_output("ready");
    ::kill(job.pid(), signal);
    EXPECT_EQ(job.wait(), 9);
    EXPECT_EQ(job.out(), fmt::format("ready\ngot {}\n", signal));
  }
}

TEST(job, second_interrupt_is_handed_on_too) {
  const TemporaryFolder folder;
  PipedJob job(shell_job_in(folder,
                            "n=0; trap 'n=$((n+1)); echo got $n; [ $n = 2 ] && exit 4' INT; echo "
                            "ready; while :; do sleep 0.05; done"));
  job.wait_for_output("ready");
  ::kill(job.pid(), SIGINT);
  job.wait_for_output("got 1");
  ::kill(job.pid(), SIGINT);
  EXPECT_EQ(job.wait(), 4);
}

TEST(job, ignored_hangup_stays_ignored) {
  const TemporaryFolder folder;
  PipedJob job(shell_job_in(folder, "echo ready; read line; echo $line"),
               [] { ::signal(SIGHUP, SIG_IGN); });
  job.wait_for_output("ready");
  ::kill(job.pid(), SIGHUP);
  job.write_input("alive\n");
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.out(), "ready\nalive\n");
}

TEST(job, reader_that_goes_away_ends_the_job_as_it_would_have) {
  const TemporaryFolder folder;
  PipedJob job(shell_job_in(folder, "while :; do echo line; done"));
  job.wait_for_output("line");
  job.close_output();
  EXPECT_EQ(job.wait_for_exit(), 128 + SIGPIPE);
}

TEST(job, child_that_outlives_the_command_is_not_waited_for_and_its_output_still_comes) {
  const TemporaryFolder folder;
  const std::string gate = folder.path() + "/gate";
  ASSERT_EQ(::mkfifo(gate.c_str(), 0600), 0);
  PipedJob job(shell_job_in(folder, "(read x < " + gate + "; echo late) & echo early; exit 6"));
  EXPECT_EQ(job.wait_for_exit(), 6);
  write_file(gate, "go\n");
  job.wait_for_output("early\nlate\n");
}

TEST(job, output_goes_on_when_the_agent_is_killed) {
  const TemporaryFolder folder;
  PipedJob job(shell_job_in(folder, "echo ready; read x; echo $x; exit 8"));
  job.wait_for_output("ready");
  ::kill(static_cast<pid_t>(integer_or(run_json(folder), "agent_pid", -1)), SIGKILL);
  job.write_input("after\n");
  EXPECT_EQ(job.wait(), 8);
  EXPECT_EQ(job.out(), "ready\nafter\n");
  EXPECT_NE(job.err().find("the agent died of signal 9"), std::string::npos) << job.err();
  EXPECT_EQ(read_file(folder.path() + "/run/logs/rank-0.out"), "ready\nafter\n");
}

TEST(job, job_goes_on_to_its_end_when_the_supervisor_is_killed) {
  const TemporaryFolder folder;
  PipedJob job(shell_job_in(folder, "echo ready; read x; echo $x; echo done >&2"));
  job.wait_for_output("ready");
  ::kill(job.pid(), SIGKILL);
  job.write_input("after\n");
  EXPECT_EQ(job.wait(), 128 + SIGKILL);  // the streams end when the copiers and the agent have
  EXPECT_EQ(job.out(), "ready\nafter\n");
  EXPECT_EQ(job.err(), "done\n");
  EXPECT_EQ(read_file(folder.path() + "/run/logs/rank-0.out"), "ready\nafter\n");
  EXPECT_EQ(run_json(folder)["status"], "lost");
}

TEST(job, log_that_cannot_be_written_is_given_up_with_one_note) {
  const TemporaryFolder folder;
  const std::string bytes = random_bytes(200'000, 2);
  write_file(folder.path() + "/input", bytes);
  PipedJob job(job_in(folder, {"/bin/cat", folder.path() + "/input"}), [] {
    const rlimit limit{100'000, 100'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  });
  EXPECT_EQ(job.wait(), 0);
  EXPECT_TRUE(job.out() == bytes);
  EXPECT_EQ(job.err(), "paramedic: the log of the job's output is given up: File too large\n");
}

TEST(job, unwritable_folder_costs_the_capture_but_not_the_job) {
  const TemporaryFolder folder;
  JobOptions options = shell_job_in(folder, "echo out; echo ${PARAMEDIC_RUN-unset}; exit 3");
  options.runs_dir = "/proc/no-such";
  PipedJob job(options);
  EXPECT_EQ(job.wait(), 3);
  EXPECT_EQ(job.out(), "out\nunset\n");
  EXPECT_TRUE(job.err().starts_with("paramedic: nothing is captured")) << job.err();
  EXPECT_EQ(std::count(job.err().begin(), job.err().end(), '\n'), 1) << job.err();
}

}  // namespace
}  // namespace paramedic::supervise
