#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include "cluster/test_job.h"

namespace paramedic::cluster {
namespace {

TEST(hang, a_rank_that_sleeps_is_named_with_its_line_within_ten_seconds) {
  TestJob job(4);
  job.all_reduce_on_all(3);
  // WHEN rank 2 sleeps and the others go on to the next call
  for (const int32_t rank : {0, 1, 3}) job.enter(rank, "all_reduce", 50);
  job.stall(2, {{"train.py", 41, "step"}, {"train.py", 80, "main"}});
  job.process(2).wait = "hrtimer_nanosleep";
  job.pass(10);
  // THEN
  const auto hangs = job.found().of("hang_missing_rank");
  ASSERT_EQ(hangs.size(), 1U);
  EXPECT_EQ(hangs[0].rank, 2);
  EXPECT_EQ(hangs[0].severity, rules::Severity::kError);
  ASSERT_TRUE(hangs[0].where);
  EXPECT_EQ(hangs[0].where->line, 41);
  EXPECT_NE(hangs[0].message.find("rank 2 sleeps at train.py:41"), std::string::npos)
      << hangs[0].message;
  EXPECT_NE(hangs[0].message.find("ranks 0, 1 and 3 wait"), std::string::npos);
  EXPECT_LE(hangs[0].time, job.seconds() - 0.5);
  EXPECT_TRUE(job.found().of("hang_all_ranks").empty());
}

TEST(hang, evaluation_on_one_rank_is_none) {
  TestJob job(2);
  job.all_reduce_on_all(3);
  job.enter(1, "barrier", 60);
  job.busy(0, 90);
  for (int64_t i = 1; i <= 6; ++i) {
    job.stall(0, {{"train.py", 20, "evaluate"}}, {.evaluating = true, .torch_calls = 100 * i});
    job.pass(5);
  }
  job.enter(0, "barrier", 60);
  job.leave(0);
  job.leave(1);
  job.pass(3);
  EXPECT_TRUE(job.found().all().empty());
}

TEST(hang, one_that_goes_on_after_all_becomes_an_info) {
  TestJob job(2);
  job.all_reduce_on_all(3);
  job.enter(1, "barrier", 60);
  job.stall(0, {{"train.py", 30, "upload"}});
  job.pass(12);
  ASSERT_EQ(job.found().of("hang_missing_rank").size(), 1U);
  EXPECT_EQ(job.found().of("hang_missing_rank")[0].severity, rules::Severity::kError);
  job.resume(0);
  job.enter(0, "barrier", 60);
  job.leave(0);
  job.leave(1);
  job.pass(3);
  const auto hangs = job.found().of("hang_missing_rank");
  ASSERT_EQ(hangs.size(), 1U);
  EXPECT_EQ(hangs[0].severity, rules::Severity::kInfo);
  // AND the same place has more patience now
  job.enter(1, "barrier", 60);
  job.stall(0, {{"train.py", 30, "upload"}});
  job.pass(20);
  EXPECT_EQ(job.found().of("hang_missing_rank").size(), 1U);
}

TEST(hang, a_stopped_process_is_named_without_a_word_from_it) {
  TestJob job(3);
  job.all_reduce_on_all(3);
  for (const int32_t rank : {0, 2}) job.enter(rank, "all_reduce", 50);
  job.process(1).state = 'T';
  job.pass(6);
  const auto hangs = job.found().of("hang_missing_rank");
  ASSERT_EQ(hangs.size(), 1U);
  EXPECT_EQ(hangs[0].rank, 1);
  EXPECT_NE(hangs[0].message.find("is stopped"), std::string::npos);
}

TEST(hang, ranks_that_wait_for_each_other_over_two_groups_are_a_circle) {
  TestJob job(4);
  job.all_reduce_on_all(2);
  const auto pair_a = job.group("a", {0, 1, 2, 3});
  const auto pair_b = job.group("b", {0, 1, 2, 3});
  for (const int32_t rank : {0, 1}) job.enter(rank, "all_reduce", 20, pair_a);
  for (const int32_t rank : {2, 3}) job.enter(rank, "all_reduce", 21, pair_b);
  job.pass(8);
  const auto hangs = job.found().of("hang_all_ranks");
  ASSERT_EQ(hangs.size(), 1U);
  EXPECT_EQ(hangs[0].rank, std::nullopt);
  EXPECT_NE(hangs[0].message.find("wait for each other"), std::string::npos);
  EXPECT_TRUE(job.found().of("hang_missing_rank").empty());
}

TEST(hang, one_rank_against_all_in_another_call_is_the_odd_one) {
  TestJob job(4);
  job.all_reduce_on_all(2);
  const auto other = job.group("b", {0, 1, 2, 3});
  for (const int32_t rank : {0, 1, 2}) job.enter(rank, "all_reduce", 20);
  job.enter(3, "barrier", 44, other);
  job.pass(8);
  const auto hangs = job.found().of("hang_missing_rank");
  ASSERT_EQ(hangs.size(), 1U);
  EXPECT_EQ(hangs[0].rank, 3);
  EXPECT_EQ(hangs[0].where->line, 44);
  EXPECT_TRUE(job.found().of("hang_all_ranks").empty());
}

TEST(hang, who_takes_from_any_rank_has_nothing_to_do_while_one_is_at_work) {
  TestJob job(3);
  job.all_reduce_on_all(3);
  // GIVEN a server that waits for requests, and workers of which none has one
  job.enter(0, "recv", 20);
  job.stall(1, {{"train.py", 30, "solve"}});
  job.stall(2, {{"train.py", 30, "solve"}});
  job.pass(60);
  EXPECT_TRUE(job.found().all().empty());
  // WHEN one of them waits for the server's answer, for which the request of the other is missing
  job.resume(1);
  job.enter(1, "recv", 40, nullptr, 0);
  job.pass(12);
  // THEN
  const auto hangs = job.found().of("hang_missing_rank");
  ASSERT_EQ(hangs.size(), 1U);
  EXPECT_EQ(hangs[0].rank, 2);
}

TEST(hang, who_takes_from_any_rank_waits_in_vain_when_all_others_wait_for_it) {
  TestJob job(3);
  job.all_reduce_on_all(3);
  job.enter(0, "recv", 20);
  for (const int32_t rank : {1, 2}) job.enter(rank, "recv", 40, nullptr, 0);
  job.pass(8);
  EXPECT_EQ(job.found().of("hang_all_ranks").size(), 1U);
}

TEST(hang, a_chain_of_waits_is_followed_to_its_end) {
  TestJob job(4);
  job.all_reduce_on_all(2);
  const auto pair = job.group("pair", {2, 3});
  for (const int32_t rank : {0, 1}) job.enter(rank, "all_reduce", 20);
  job.enter(2, "all_reduce", 33, pair);
  job.stall(3, {{"train.py", 70, "load"}});
  job.pass(10);
  const auto hangs = job.found().of("hang_missing_rank");
  ASSERT_EQ(hangs.size(), 1U);
  EXPECT_EQ(hangs[0].rank, 3);
  EXPECT_EQ(hangs[0].where->line, 70);
}

TEST(hang, what_is_called_below_python_is_known_from_the_flight_recorder) {
  TestJob job(3);
  for (const int32_t rank : {0, 1}) {
    job.stall(rank,
              {{"/x/site-packages/torch/autograd/graph.py", 800, "_engine_run_backward"},
               {"train.py", 52, "main"}},
              {.enqueued = 40, .completed = 39});
  }
  job.stall(2, {{"train.py", 47, "main"}}, {.enqueued = 39, .completed = 39});
  for (int32_t rank = 0; rank < 3; ++rank) job.process(rank).last_step = 12;
  job.pass(10);
  const auto hangs = job.found().of("hang_missing_rank");
  ASSERT_EQ(hangs.size(), 1U);
  EXPECT_EQ(hangs[0].rank, 2);
  EXPECT_EQ(hangs[0].where->line, 47);
}

TEST(hang, a_call_seen_in_python_and_those_below_it_are_matched_by_the_flight_recorders_count) {
  TestJob job(3);
  job.enter(0, "broadcast", 22);
  job.stall(0,
            {{"/x/site-packages/torch/distributed/distributed_c10d.py", 3151, "broadcast"},
             {"train.py", 22, "announce"}},
            {.enqueued = 426, .completed = 425, .operation = "broadcast"});
  for (const int32_t rank : {1, 2}) {
    job.stall(rank,
              {{"/x/site-packages/torch/autograd/graph.py", 800, "_engine_run_backward"},
               {"train.py", 31, "epoch"}},
              {.enqueued = 426, .completed = 425, .operation = "all_reduce"});
  }
  for (int32_t rank = 0; rank < 3; ++rank) job.process(rank).last_step = 12;
  job.pass(10);
  const auto hangs = job.found().of("hang_missing_rank");
  ASSERT_EQ(hangs.size(), 1U);
  EXPECT_EQ(hangs[0].rank, 0);
  EXPECT_EQ(hangs[0].where->line, 22);
  EXPECT_NE(hangs[0].message.find("while ranks 1 and 2 wait in all_reduce (train.py:31)"),
            std::string::npos)
      << hangs[0].message;
  // AND it stays so while the launcher ends one rank after the other
  job.kill(1, SIGTERM);
  job.kill(2, SIGTERM);
  job.pass(30);
  EXPECT_EQ(job.found().of("hang_missing_rank")[0].message, hangs[0].message);
  EXPECT_TRUE(job.found().of("hang_all_ranks").empty());
}

TEST(hang, a_barrier_that_the_flight_recorder_does_not_know_is_not_taken_for_one_that_all_entered) {
  TestJob job(3);
  job.all_reduce_on_all(3);
  for (const int32_t rank : {0, 2}) {
    job.enter(rank, "monitored_barrier", 46);
    job.stall(rank,
              {{"/x/site-packages/torch/distributed/distributed_c10d.py", 4900, "barrier"},
               {"train.py", 46, "main"}},
              {.enqueued = 3, .completed = 3});
  }
  job.stall(1, {{"train.py", 16, "__enter__"}}, {.enqueued = 3, .completed = 3});
  job.process(1).wait = "hrtimer_nanosleep";
  job.pass(10);
  const auto hangs = job.found().of("hang_missing_rank");
  ASSERT_EQ(hangs.size(), 1U);
  EXPECT_EQ(hangs[0].rank, 1);
  EXPECT_EQ(hangs[0].where->line, 16);
}

TEST(hang, a_circle_of_pairs_in_a_ring_accuses_nobody) {
  TestJob job(4);
  std::vector<TestJob::Group> pairs;
  for (int32_t rank = 0; rank < 4; ++rank) {
    const int32_t next = (rank + 1) % 4;
    pairs.push_back(
        job.group("pair" + std::to_string(rank), {std::min(rank, next), std::max(rank, next)}));
  }
  for (int32_t rank = 0; rank < 4; ++rank) {
    job.enter(rank, "all_reduce", 17, pairs[static_cast<size_t>((rank + 3) % 4)]);
  }
  job.pass(10);
  EXPECT_TRUE(job.found().of("hang_missing_rank").empty());
  ASSERT_EQ(job.found().of("hang_all_ranks").size(), 1U);
  EXPECT_EQ(job.found().of("hang_all_ranks")[0].rank, std::nullopt);
}

TEST(hang, all_in_one_call_that_does_not_end_accuses_nobody) {
  TestJob job(3);
  job.all_reduce_on_all(3);
  for (int32_t rank = 0; rank < 3; ++rank) job.enter(rank, "all_reduce", 50);
  job.pass(11);
  const auto hangs = job.found().of("hang_all_ranks");
  ASSERT_EQ(hangs.size(), 1U);
  EXPECT_EQ(hangs[0].rank, std::nullopt);
  EXPECT_EQ(hangs[0].where->line, 50);
}

TEST(hang, a_receive_without_a_send_names_the_rank_that_does_something_else) {
  TestJob job(3);
  job.all_reduce_on_all(3);
  job.enter(2, "recv", 31, nullptr, 0);
  for (const int32_t rank : {0, 1}) job.enter(rank, "all_reduce", 50);
  job.pass(8);
  const auto hangs = job.found().of("hang_missing_rank");
  ASSERT_EQ(hangs.size(), 1U);
  EXPECT_EQ(hangs[0].rank, 2);
  EXPECT_EQ(hangs[0].where->line, 31);
}

TEST(hang, a_rank_that_has_left_is_missing_at_once) {
  TestJob job(4);
  job.all_reduce_on_all(3);
  for (const int32_t rank : {0, 1, 2}) job.enter(rank, "all_reduce", 50);
  job.exit_well(3);
  job.pass(4);
  const auto hangs = job.found().of("hang_missing_rank");
  ASSERT_EQ(hangs.size(), 1U);
  EXPECT_EQ(hangs[0].rank, 3);
  EXPECT_TRUE(job.found().of("rank_died").empty());
}

TEST(hang, a_rank_that_left_is_named_when_the_others_fail_before_anybody_waits_long) {
  TestJob job(3);
  job.all_reduce_on_all(3);
  job.exit_well(1);
  for (const int32_t rank : {0, 2}) job.enter(rank, "all_reduce", 50);
  job.pass(0.5);
  for (const int32_t rank : {0, 2}) {
    job.exit_raising(rank, "RuntimeError", "gloo: Connection closed by peer", 50);
  }
  job.pass(1);
  job.finish();
  const auto hangs = job.found().of("hang_missing_rank");
  ASSERT_EQ(hangs.size(), 1U);
  EXPECT_EQ(hangs[0].rank, 1);
  EXPECT_TRUE(job.found().of("rank_died").empty());
}

TEST(hang, a_rank_that_left_is_told_once_though_one_of_the_others_goes_on_waiting) {
  TestJob job(3);
  job.all_reduce_on_all(3);
  job.exit_well(1);
  for (const int32_t rank : {0, 2}) job.enter(rank, "all_reduce", 50);
  job.pass(0.5);
  job.exit_raising(0, "RuntimeError", "gloo: Connection closed by peer", 50);
  job.pass(30);
  job.finish();
  const auto hangs = job.found().of("hang_missing_rank");
  ASSERT_EQ(hangs.size(), 1U);
  EXPECT_EQ(hangs[0].rank, 1);
}

TEST(hang, ranks_of_other_machines_are_not_accused) {
  TestJob job(2);
  const auto world = job.group("world", {0, 1, 2, 3});
  job.enter(0, "all_reduce", 50, world);
  job.enter(1, "all_reduce", 50, world);
  job.pass(60);
  EXPECT_TRUE(job.found().all().empty());
}

}  // namespace
}  // namespace paramedic::cluster
