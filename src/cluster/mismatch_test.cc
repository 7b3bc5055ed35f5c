#include <gtest/gtest.h>

#include <string>

#include "cluster/test_job.h"

namespace paramedic::cluster {
namespace {

TEST(mismatch, another_operation_of_one_rank_is_told_with_its_line_at_once) {
  TestJob job(4);
  job.all_reduce_on_all(3);
  for (const int32_t rank : {0, 1, 2}) job.enter(rank, "broadcast", 24);
  job.enter(3, "all_reduce", 29);
  job.pass(1);
  const auto found = job.found().of("collective_mismatch");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 3);
  EXPECT_EQ(found[0].where->line, 29);
  EXPECT_NE(found[0].message.find("rank 3 called all_reduce"), std::string::npos);
}

TEST(mismatch, sizes_that_differ_and_return_are_told_though_nothing_hangs) {
  TestJob job(3);
  job.all_reduce_on_all(2);
  for (int32_t rank = 0; rank < 3; ++rank) {
    job.enter(rank, "all_reduce", 30, nullptr, -1, {rank == 0 ? 999 : 1000});
    job.leave(rank);
  }
  job.pass(1);
  const auto found = job.found().of("collective_mismatch");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 0);
}

TEST(mismatch, other_shapes_of_as_many_values_and_uneven_objects_are_none) {
  TestJob job(2);
  for (int32_t rank = 0; rank < 2; ++rank) {
    const bool first = rank == 0;
    job.enter(rank, "all_reduce", 30, nullptr, -1,
              first ? std::vector<int64_t>{6} : std::vector<int64_t>{2, 3});
    job.leave(rank);
    job.enter(rank, "all_gather_object", 31, nullptr, -1, {first ? 10 : 99});
    job.leave(rank);
    job.enter(rank, "all_to_all_single", 32, nullptr, -1, {first ? 10 : 99});
    job.leave(rank);
    if (first) job.enter(0, "send", 33, nullptr, 1);
    if (!first) job.enter(1, "recv", 34, nullptr, 0);
    job.leave(rank);
    job.enter(rank, "barrier", first ? 40 : 41);
    job.leave(rank);
  }
  job.pass(2);
  job.finish();
  EXPECT_TRUE(job.found().all().empty());
}

TEST(mismatch, another_root_is_one_and_of_two_ranks_nobody_is_accused) {
  TestJob job(2);
  job.enter(0, "broadcast", 20, nullptr, 0);
  job.enter(1, "broadcast", 20, nullptr, 1);
  job.pass(1);
  const auto found = job.found().of("collective_mismatch");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, std::nullopt);
  EXPECT_NE(found[0].message.find("no side has the majority"), std::string::npos);
}

void call(TestJob& job, int32_t rank, const std::string& operation, int32_t line) {
  job.enter(rank, operation, line);
  job.leave(rank);
}

TEST(mismatch, of_two_ranks_the_one_with_an_extra_forward_pass_is_named_at_its_first_line) {
  TestJob job(2);
  const auto forward = [&](int32_t rank, int32_t line) {
    for (int layer = 0; layer < 2; ++layer) call(job, rank, "all_gather", line);
  };
  for (int step = 0; step < 10; ++step) {
    for (const int32_t rank : {0, 1}) {
      forward(rank, 21);
      forward(rank, 23);  // the backward pass gathers again
      call(job, rank, "reduce_scatter", 23);
    }
  }
  // WHEN rank 1 runs the model once more, the calls of the next step come to meet it
  forward(1, 29);
  forward(1, 21);
  job.enter(1, "all_gather", 23);
  forward(0, 21);
  forward(0, 23);
  job.enter(0, "reduce_scatter", 23);
  job.pass(1);
  const auto found = job.found().of("collective_mismatch");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 1);
  EXPECT_EQ(found[0].where->line, 29);
}

TEST(mismatch, a_rank_whose_rows_were_lost_fits_to_what_is_known) {
  TestJob job(2);
  for (int i = 0; i < 6; ++i) {
    job.enter(0, i % 2 == 0 ? "all_reduce" : "broadcast", 20);
    job.leave(0);
  }
  job.enter(1, "all_reduce", 20);
  job.leave(1);
  job.lose(1, 3);
  job.enter(1, "all_reduce", 20);
  job.leave(1);
  job.enter(1, "broadcast", 20);
  job.leave(1);
  job.pass(5);
  job.finish();
  EXPECT_TRUE(job.found().all().empty());
}

}  // namespace
}  // namespace paramedic::cluster
