// The job on a terminal: it must not be able to tell that somebody stands between.
#include "supervise/terminal.h"

#include <gtest/gtest.h>

#include <sstream>

#include "supervise/job_harness.h"

namespace paramedic::supervise {
namespace {

// What Python sees of the three streams.
constexpr const char* kDescribe =
    "import os, sys; print([os.isatty(f) for f in (0, 1, 2)], os.get_terminal_size(1))";

TEST(terminal, every_stream_that_was_a_terminal_is_one_for_the_job) {
  const TemporaryFolder folder;
  TerminalJob job(job_in(folder, {"python3", "-c", kDescribe}));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.screen(), "[True, True, True] os.terminal_size(columns=80, lines=24)\r\n");
  EXPECT_EQ(read_file(folder.path() + "/run/logs/rank-0.out"),
            "[True, True, True] os.terminal_size(columns=80, lines=24)\n");
}

TEST(terminal, control_characters_and_carriage_returns_pass_unchanged) {
  const TemporaryFolder folder;
  TerminalJob job(
      job_in(folder, {"/usr/bin/printf", "50%%\\r100%%\\r\\n\\t\\033[31mred\\033[0m\\n"}));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.screen(), "50%\r100%\r\r\n\t\033[31mred\033[0m\r\n");
}

TEST(terminal, ctrl_c_interrupts_the_job) {
  const TemporaryFolder folder;
  TerminalJob job(shell_job_in(folder,
                               "trap 'echo interrupted; exit 7' INT; echo ready; "
                               "while :; do sleep 0.05; done"));
  job.wait_for_screen("ready");
  job.type("\x03");
  EXPECT_EQ(job.wait(), 7);
  EXPECT_NE(job.screen().find("interrupted"), std::string::npos);
}

TEST(terminal, ctrl_c_ends_a_job_that_does_not_handle_it_with_130) {
  const TemporaryFolder folder;
  TerminalJob job(job_in(
      folder, {"python3", "-c", "import time\nprint('ready', flush=True)\ntime.sleep(100)"}));
  job.wait_for_screen("ready");
  job.type("\x03");
  EXPECT_EQ(job.wait(), 130);
  EXPECT_NE(job.screen().find("KeyboardInterrupt"), std::string::npos);
}

TEST(terminal, job_that_reads_is_lent_the_terminal_and_ctrl_c_still_ends_it) {
  const TemporaryFolder folder;
  TerminalJob job(shell_job_in(folder,
                               "read a; echo got $a; trap 'exit 7' INT; echo ready; "
                               "while :; do sleep 0.05; done"),
                  TerminalJob::kShell);
  job.type("typed\n");
  job.wait_for_screen("got typed");
  job.wait_for_screen("ready");
  job.type("\x03");
  EXPECT_EQ(job.wait(), 7);
}

TEST(terminal, interactive_programs_work) {
  const TemporaryFolder folder;
  TerminalJob job(job_in(folder, {"python3", "-q"}), TerminalJob::kShell);
  job.wait_for_screen(">>> ");
  job.type("print(6 * 7)\n");
  job.wait_for_screen("42");
  job.type("exit(3)\n");
  EXPECT_EQ(job.wait(), 3);
}

TEST(terminal, ctrl_z_without_a_shell_that_could_continue_stops_nothing) {
  const TemporaryFolder folder;
  TerminalJob job(shell_job_in(folder, "echo ready; read a; echo got $a"));
  job.wait_for_screen("ready");
  job.type("\x1a");
  job.wait_for_screen("^Z");
  job.type("on\n");
  job.wait_for_screen("got on");
  EXPECT_EQ(job.wait(), 0);
}

// In a pipeline or a script others are in our process group, and keep the terminal until the job
// reads.
TEST(terminal, others_in_our_group_keep_the_terminal_until_the_job_reads) {
  const TemporaryFolder folder;
  const JobOptions options = shell_job_in(
      folder,
      "ps -o tpgid=,pgid= -p $$; read a; echo got $a; ps -o tpgid=,pgid= -p $$; read b; exit 4");
  TerminalJob job(options, TerminalJob::kScript);
  job.type("one\n");
  job.wait_for_screen("got one\r\n");
  job.type("two\n");
  EXPECT_EQ(job.wait(), 4);
  int holder_before = 0;
  int holder_after = 0;
  int group = 0;
  std::string got;
  std::istringstream(read_file(folder.path() + "/run/logs/rank-0.out")) >> holder_before >> group >>
      got >> got >> holder_after;
  EXPECT_GT(group, 0);
  EXPECT_NE(holder_before, group);
  EXPECT_EQ(holder_after, group);
}

// Not a shell as the job: a Ctrl-Z that meets dash between vfork and exec stops just its child, and
// dash, which waits for the exec, never stops.
TEST(terminal, ctrl_z_stops_us_with_the_job_and_fg_continues_both) {
  const TemporaryFolder folder;
  TerminalJob job(job_in(folder, {"python3", "-c",
                                  "import os, time\n"
                                  "print('ready', flush=True)\n"
                                  "while not os.path.exists('" +
                                      folder.path() +
                                      "/go'): time.sleep(0.05)\n"
                                      "print('went on')"}),
                  TerminalJob::kShell);
  job.wait_for_screen("ready");
  job.type("\x1a");
  job.wait_for_screen("[ours stopped]");
  write_file(folder.path() + "/go", "");
  job.type("fg\n");
  job.wait_for_screen("went on");
  EXPECT_EQ(job.wait(), 0);
}

TEST(terminal, ctrl_z_while_the_job_has_the_terminal_gives_it_back_and_forth) {
  const TemporaryFolder folder;
  TerminalJob job(shell_job_in(folder, "read a; echo got $a; read b; echo got $b"),
                  TerminalJob::kShell);
  job.type("one\n");
  job.wait_for_screen("got one");
  job.type("\x1a");
  job.wait_for_screen("[ours stopped]");  // taken back before we stopped
  job.type("fg\n");
  job.type("two\n");
  job.wait_for_screen("got two");
  EXPECT_EQ(job.wait(), 0);
}

TEST(terminal, new_window_size_reaches_the_job) {
  const TemporaryFolder folder;
  TerminalJob job(job_in(folder, {"python3", "-c",
                                  "import os, signal\n"
                                  "signal.signal(signal.SIGWINCH, lambda *_: None)\n"
                                  "print('ready', flush=True)\n"
                                  "while os.get_terminal_size(1).columns == 80: signal.pause()\n"
                                  "print(os.get_terminal_size(1))"}));
  job.wait_for_screen("ready");
  job.resize(50, 132);
  EXPECT_EQ(job.wait(), 0);
  EXPECT_NE(job.screen().find("columns=132, lines=50"), std::string::npos) << job.screen();
}

TEST(terminal, closed_terminal_hangs_the_job_up_and_the_run_is_finished) {
  const TemporaryFolder folder;
  const std::string mark = folder.path() + "/hung-up";
  TerminalJob job(shell_job_in(folder, "trap 'echo x > " + mark +
                                           "; exit 1' HUP; echo ready; "
                                           "while :; do sleep 0.05; done"));
  job.wait_for_screen("ready");
  job.hang_up();
  EXPECT_EQ(job.wait(), 1);
  EXPECT_EQ(read_file(mark), "x\n");
  EXPECT_NE(read_file(folder.path() + "/run/run.json").find("\"failed\""), std::string::npos);
}

}  // namespace
}  // namespace paramedic::supervise
