#include "cluster/cluster.h"

#include <gtest/gtest.h>

#include "cluster/test_cluster.h"

namespace paramedic::cluster {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

Moment moment_of(int32_t ranks, int64_t time_ns) {
  Moment moment;
  moment.time_ns = time_ns;
  for (int32_t rank = 0; rank < ranks; ++rank) moment.processes.push_back(process_of(rank, ranks));
  return moment;
}

TEST(cluster, a_rank_that_is_gone_while_the_others_run_is_named_once) {
  Found found;
  const auto cluster = Cluster::create(found);
  cluster->tick(moment_of(4, 10 * kSecond));
  Moment moment = moment_of(4, 11 * kSecond);
  moment.processes[2].alive = false;
  moment.processes[2].last_step = 7;
  cluster->tick(moment);
  // Who was first is certain after a moment.
  moment.time_ns = 13 * kSecond;
  cluster->tick(moment);
  moment.time_ns = 14 * kSecond;
  cluster->tick(moment);
  const auto died = found.of("rank_died");
  ASSERT_EQ(died.size(), 1U);
  EXPECT_EQ(died[0].rank, 2);
  EXPECT_EQ(died[0].step, 7);
  EXPECT_EQ(died[0].time, 13.0);
}

TEST(cluster, a_job_whose_ranks_end_in_good_order_one_after_another_has_no_finding) {
  Found found;
  const auto cluster = Cluster::create(found);
  Moment moment = moment_of(3, 10 * kSecond);
  for (RankProcess& process : moment.processes) {
    process.alive = false;
    process.closed = true;
    moment.time_ns += kSecond;
    cluster->tick(moment);
  }
  cluster->finish();
  EXPECT_TRUE(found.all().empty());
}

}  // namespace
}  // namespace paramedic::cluster
