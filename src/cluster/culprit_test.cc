#include "cluster/culprit.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "cluster/test_cluster.h"

namespace paramedic::cluster {
namespace {

using Ranks = std::vector<int32_t>;

TEST(culprit, of_a_circle_the_rank_that_would_set_all_others_free_is_the_one) {
  // Rank 2 went on without the call of {0, 1, 2}; the others of its pair wait for nobody else.
  EXPECT_EQ(could_free_all({{.waiters = {0, 1}, .blockers = {2}},
                            {.waiters = {2}, .blockers = {3}},
                            {.waiters = {3}, .blockers = {0, 1}}}),
            (Ranks{2, 3}));
  // In a second circle of two that has nothing to do with it somebody stays.
  EXPECT_TRUE(could_free_all({{.waiters = {0}, .blockers = {1}},
                              {.waiters = {1}, .blockers = {0}},
                              {.waiters = {2}, .blockers = {3}},
                              {.waiters = {3}, .blockers = {2}}})
                  .empty());
}

TEST(culprit, who_waits_for_two_that_wait_for_one_is_not_the_one) {
  // 6 called the call of all too early: 14 and 22 wait for it, and the rest for them.
  EXPECT_EQ(could_free_all({{.waiters = {1, 2, 3, 6}, .blockers = {14, 22}},
                            {.waiters = {14, 22}, .blockers = {6}}}),
            (Ranks{6}));
}

TEST(culprit, of_two_that_wait_for_each_other_both_could) {
  EXPECT_EQ(could_free_all({{.waiters = {0}, .blockers = {1}}, {.waiters = {1}, .blockers = {0}}}),
            (Ranks{0, 1}));
  EXPECT_TRUE(could_free_all({}).empty());
}

// Pairs {0, 4}, {1, 5}, … whose members have made so many calls each.
class Pairs {
 public:
  explicit Pairs(const std::vector<int>& calls) {
    const auto half = static_cast<int32_t>(calls.size() / 2);
    for (int32_t rank = 0; rank < static_cast<int32_t>(calls.size()); ++rank) {
      const int32_t low = rank % half;
      infos_.push_back(std::make_unique<store::GroupInfo>());
      infos_.back()->name = std::to_string(low);
      infos_.back()->description = "data_parallel";
      infos_.back()->ranks = {low, low + half};
      for (int call = 0; call < calls[static_cast<size_t>(rank)]; ++call) {
        store::CollectiveRow row;
        row.origin = origin_of(rank, 1000 + call);
        row.group = infos_.back().get();
        row.sequence = call;
        row.operation = "all_reduce";
        row.entered_ns = 1000 + call;
        groups.take(row);
        row.left_ns = 1001 + call;
        groups.take(row);
      }
    }
  }

  Groups groups;

 private:
  std::vector<std::unique_ptr<store::GroupInfo>> infos_;
};

TEST(culprit, between_two_the_one_that_called_less_than_its_peers_in_other_groups_decides) {
  EXPECT_EQ(unlike_its_peers(Pairs({3, 2, 3, 3, 3, 3, 3, 3}).groups, {1, 5}), 1);
  EXPECT_EQ(unlike_its_peers(Pairs({3, 3, 3, 3, 3, 4, 3, 3}).groups, {1, 5}), 5);
  EXPECT_FALSE(unlike_its_peers(Pairs({3, 3, 3, 3, 3, 3, 3, 3}).groups, {1, 5}).has_value());
  EXPECT_FALSE(unlike_its_peers(Pairs({3, 2}).groups, {0, 1}).has_value());
}

}  // namespace
}  // namespace paramedic::cluster
