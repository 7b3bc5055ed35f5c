#include "supervise/exits.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace paramedic::supervise {
namespace {

TEST(exits, a_process_that_somebody_else_waits_for_tells_its_signal_where_the_kernel_keeps_it) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::pause();
    ::_exit(0);
  }
  Exits exits;
  exits.follow(pid);
  EXPECT_EQ(exits.wait_status(pid), std::nullopt);
  ::kill(pid, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  const auto told = exits.wait_status(pid);
  if (!told) GTEST_SKIP() << "this kernel does not keep it";
  EXPECT_TRUE(WIFSIGNALED(*told));
  EXPECT_EQ(WTERMSIG(*told), SIGKILL);
  EXPECT_EQ(exits.wait_status(pid), told);
}

TEST(exits, a_dead_process_for_which_nobody_has_waited_tells_it_too) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::pause();
    ::_exit(0);
  }
  Exits exits;
  exits.follow(pid);
  ::kill(pid, SIGTERM);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
  const auto told = exits.wait_status(pid);
  ASSERT_TRUE(told);
  EXPECT_TRUE(WIFSIGNALED(*told));
  EXPECT_EQ(WTERMSIG(*told), SIGTERM);
  int status = 0;
  ::waitpid(pid, &status, 0);
}

TEST(exits, of_a_process_that_is_not_followed_nothing_is_known) {
  Exits exits;
  EXPECT_EQ(exits.wait_status(::getpid()), std::nullopt);
}

}  // namespace
}  // namespace paramedic::supervise
