#include <gtest/gtest.h>

#include <csignal>

#include "cluster/test_job.h"

namespace paramedic::cluster {
namespace {

TEST(death, the_killed_rank_is_named_and_not_those_that_fail_after_it) {
  TestJob job(4);
  job.kill(2, SIGKILL);
  for (const int32_t rank : {0, 1}) {
    job.exit_raising(rank, "RuntimeError", "Connection closed by peer [127.0.0.1]", 50);
  }
  job.kill(3, SIGTERM);
  job.pass(3);
  job.finish();
  const auto died = job.found().of("rank_died");
  ASSERT_EQ(died.size(), 1U);
  EXPECT_EQ(died[0].rank, 2);
  EXPECT_NE(died[0].message.find("signal 9"), std::string::npos);
  EXPECT_EQ(job.found().all().size(), 1U);
}

TEST(death, a_victim_that_the_launcher_ends_on_its_way_out_does_not_hide_the_killed_rank) {
  TestJob job(4);
  // Its error is told between two looks, the end of all comes to light in the next one.
  job.exit_raising(3, "RuntimeError", "gloo: Connection reset by peer", 50);
  job.process(3).alive = true;
  job.pass(0.5);
  job.kill(2, SIGKILL);
  for (const int32_t rank : {0, 1, 3}) job.kill(rank, SIGTERM);
  job.pass(3);
  job.finish();
  const auto died = job.found().of("rank_died");
  ASSERT_EQ(died.size(), 1U);
  EXPECT_EQ(died[0].rank, 2);
}

TEST(death, workers_of_tensorflow_that_lose_a_peer_are_no_dead_ones) {
  TestJob job(3);
  job.kill(1, SIGKILL);
  job.exit_raising(0, "UnavailableError", "Collective ops is aborted by: Socket closed", 50);
  job.exit_raising(2, "UnavailableError", "Failed to send RPC to coordination service", 50);
  job.pass(3);
  job.finish();
  ASSERT_EQ(job.found().all().size(), 1U);
  EXPECT_EQ(job.found().of("rank_died").at(0).rank, 1);
}

TEST(death, an_exception_of_one_rank_is_its_death_with_the_line) {
  TestJob job(3);
  job.exit_raising(1, "KeyError", "'label'", 33);
  job.pass(3);
  const auto died = job.found().of("rank_died");
  ASSERT_EQ(died.size(), 1U);
  EXPECT_EQ(died[0].rank, 1);
  EXPECT_EQ(died[0].where->line, 33);
}

TEST(death, a_rank_that_keeps_its_exception_and_ends_first_with_a_code_is_the_cause) {
  TestJob job(3);
  job.exit_quietly(1, 1);
  job.pass(0.5);
  job.exit_raising(0, "RuntimeError", "gloo: Connection closed by peer", 50);
  job.kill(2, SIGTERM);
  job.pass(3);
  job.finish();
  const auto died = job.found().of("rank_died");
  ASSERT_EQ(died.size(), 1U);
  EXPECT_EQ(died[0].rank, 1);
  EXPECT_NE(died[0].message.find("exit code 1"), std::string::npos);
}

TEST(death, ranks_that_keep_their_exceptions_and_end_after_another_one_are_no_cause) {
  TestJob job(3);
  job.exit_well(2);
  job.pass(0.5);
  job.exit_quietly(0, 1);
  job.exit_raising(1, "RuntimeError", "gloo: Connection closed by peer", 50);
  job.pass(3);
  job.finish();
  EXPECT_TRUE(job.found().of("rank_died").empty());
  EXPECT_EQ(job.found().of("hang_missing_rank").at(0).rank, 2);
}

TEST(death, a_code_with_which_all_ranks_end_is_no_fault_of_one) {
  TestJob job(3);
  for (int32_t rank = 0; rank < 3; ++rank) {
    job.exit_quietly(rank, 1);
    job.pass(0.5);
  }
  job.finish();
  EXPECT_TRUE(job.found().of("rank_died").empty());
}

TEST(death, an_exception_that_all_ranks_meet_is_no_fault_of_one) {
  TestJob job(3);
  for (int32_t rank = 0; rank < 3; ++rank) job.exit_raising(rank, "KeyError", "'label'", 33);
  job.pass(3);
  job.finish();
  EXPECT_TRUE(job.found().all().empty());
}

TEST(death, a_job_that_is_ended_from_outside_has_no_death) {
  TestJob job(3);
  for (int32_t rank = 0; rank < 3; ++rank) {
    job.kill(rank, SIGTERM);
    job.pass(1);
  }
  job.finish();
  EXPECT_TRUE(job.found().all().empty());
}

TEST(death, a_port_that_was_taken_is_told_as_such_with_the_line_that_opened_it) {
  TestJob job(2);
  job.exit_raising(0, "DistNetworkError",
                   "The server socket has failed to listen. port: 31122, name: EADDRINUSE", 13);
  job.exit_raising(1, "DistStoreError", "Timed out", 13);
  job.pass(3);
  const auto found = job.found().of("port_in_use");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 0);
  EXPECT_EQ(found[0].where->line, 13);
  EXPECT_EQ(job.found().all().size(), 1U);
}

TEST(death, want_of_memory_is_told_as_such_alone) {
  TestJob job(2);
  job.exit_raising(0, "RuntimeError", "DefaultCPUAllocator: can't allocate memory", 12);
  job.exit_raising(1, "RuntimeError", "gloo: Connection closed by peer", 50);
  job.pass(3);
  const auto found = job.found().of("rank_out_of_memory");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 0);
  EXPECT_EQ(found[0].where->line, 12);
  EXPECT_EQ(job.found().all().size(), 1U);
}

TEST(death, a_kill_by_the_kernel_for_want_of_memory_is_known_from_its_count) {
  TestJob job(2);
  job.metric("cgroup_oom_kills", 4);
  job.pass(1);
  job.kill(1, SIGKILL);
  job.metric("cgroup_oom_kills", 5);
  job.pass(3);
  const auto found = job.found().of("rank_out_of_memory");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 1);
  // THEN it stays so when what is left of the job moves to another group
  job.metric("cgroup_oom_kills", 0);
  job.pass(3);
  EXPECT_TRUE(job.found().of("rank_died").empty());
}

TEST(death, a_kill_for_want_of_memory_at_another_time_is_that_of_another_job) {
  TestJob job(2);
  job.metric("cgroup_oom_kills", 4);
  job.pass(1);
  job.metric("cgroup_oom_kills", 5);
  job.pass(20);
  job.kill(1, SIGKILL);
  job.pass(3);
  EXPECT_TRUE(job.found().of("rank_out_of_memory").empty());
  EXPECT_EQ(job.found().of("rank_died").size(), 1U);
}

TEST(death, ranks_that_end_well_one_after_another_are_left_alone) {
  TestJob job(3);
  for (int32_t rank = 0; rank < 3; ++rank) {
    job.exit_well(rank);
    job.pass(2);
  }
  job.finish();
  EXPECT_TRUE(job.found().all().empty());
}

}  // namespace
}  // namespace paramedic::cluster
