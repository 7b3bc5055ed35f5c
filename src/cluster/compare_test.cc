#include "cluster/compare.h"

#include <gtest/gtest.h>

namespace paramedic::cluster {
namespace {

using Calls = std::vector<uint32_t>;

RankCalls rank_of(int32_t rank, Calls calls, int64_t left = -1, int64_t first = 0) {
  RankCalls made{rank, first, std::move(calls), 0};
  made.left = left < 0 ? made.entered() : left;
  return made;
}

TEST(compare, a_rank_that_has_entered_fewer_calls_than_the_foremost_lags) {
  const Frontier frontier =
      frontier_of({rank_of(0, {1, 2, 3}, 2), rank_of(1, {1, 2, 3}, 2), rank_of(2, {1}, 1)});
  EXPECT_EQ(frontier.furthest, 3);
  EXPECT_EQ(frontier.laggards, std::vector<int32_t>{2});
  EXPECT_EQ(frontier.inside, (std::vector<int32_t>{0, 1}));
}

TEST(compare, ranks_that_call_the_same_never_part_however_far_each_is_and_what_it_forgot) {
  EXPECT_FALSE(first_divergence(
      {rank_of(0, {1, 2, 3, 4}), rank_of(1, {2, 3}, -1, 1), rank_of(2, {kUnknownSignature, 2})}));
  EXPECT_FALSE(first_divergence({}));
  EXPECT_FALSE(first_divergence({rank_of(0, {1}), rank_of(1, {})}));
}

TEST(compare, the_strict_majority_is_right_even_when_it_does_not_hold_the_first_rank) {
  const auto divergence =
      first_divergence({rank_of(0, {1, 9}), rank_of(1, {1, 2}), rank_of(2, {1, 2})});
  ASSERT_TRUE(divergence);
  EXPECT_EQ(divergence->number, 1);
  EXPECT_TRUE(divergence->has_majority);
  EXPECT_EQ(divergence->camps[0].ranks, (std::vector<int32_t>{1, 2}));
  ASSERT_EQ(divergence->edits.size(), 1U);
  EXPECT_EQ(divergence->edits[0].rank, 0);
  EXPECT_EQ(divergence->edits[0].kind, Edit::Kind::kOther);
}

TEST(compare, a_tie_accuses_nobody) {
  const auto divergence = first_divergence({rank_of(0, {1}), rank_of(1, {2})});
  ASSERT_TRUE(divergence);
  EXPECT_FALSE(divergence->has_majority);
  EXPECT_EQ(divergence->camps.size(), 2U);
  EXPECT_TRUE(divergence->edits.empty());
}

Edit only_edit(const Calls& others, const Calls& calls) {
  const auto divergence =
      first_divergence({rank_of(0, others), rank_of(1, others), rank_of(2, calls)});
  return divergence && divergence->edits.size() == 1 ? divergence->edits[0] : Edit{-1};
}

TEST(compare, a_skipped_call_is_told_from_what_follows) {
  const Edit edit = only_edit({1, 2, 3, 4, 5, 6}, {1, 2, 4, 5, 6});
  EXPECT_EQ(edit.rank, 2);
  EXPECT_EQ(edit.kind, Edit::Kind::kSkipped);
  EXPECT_EQ(edit.number, 2);
  EXPECT_EQ(edit.count, 1);
}

TEST(compare, a_skipped_call_is_told_from_the_past_when_nothing_follows_yet) {
  const Edit edit = only_edit({1, 2, 3, 4, 1, 2, 3}, {1, 2, 3, 4, 1, 2, 4});
  EXPECT_EQ(edit.kind, Edit::Kind::kSkipped);
  EXPECT_EQ(edit.number, 6);
}

TEST(compare, an_extra_call_and_an_exchanged_pair_are_told) {
  const Edit extra = only_edit({1, 2, 3, 4, 5}, {1, 9, 2, 3, 4, 5});
  EXPECT_EQ(extra.kind, Edit::Kind::kExtra);
  EXPECT_EQ(extra.number, 1);
  const Edit reordered = only_edit({1, 2, 3, 4, 5}, {1, 3, 2, 4, 5});
  EXPECT_EQ(reordered.kind, Edit::Kind::kReordered);
  EXPECT_EQ(reordered.count, 2);
}

TEST(compare, one_other_call_after_which_all_fits_is_not_taken_for_many_extra_ones) {
  const Edit edit = only_edit({1, 2, 3, 3, 3, 3}, {9, 2, 3, 3, 3, 3});
  EXPECT_EQ(edit.kind, Edit::Kind::kOther);
  EXPECT_EQ(edit.number, 0);
}

TEST(compare, ten_thousand_ranks_of_which_one_skips_a_call_are_answered) {
  Calls common;
  for (uint32_t i = 0; i < 200; ++i) common.push_back(1 + i % 7);
  std::vector<RankCalls> ranks;
  for (int32_t rank = 0; rank < 10'000; ++rank) ranks.push_back(rank_of(rank, common));
  ranks[77].signatures.erase(ranks[77].signatures.begin() + 100);
  ranks[77].left = ranks[77].entered();
  EXPECT_EQ(frontier_of(ranks).laggards, std::vector<int32_t>{77});
  const auto divergence = first_divergence(ranks);
  ASSERT_TRUE(divergence);
  ASSERT_EQ(divergence->edits.size(), 1U);
  EXPECT_EQ(divergence->edits[0].rank, 77);
  EXPECT_EQ(divergence->edits[0].kind, Edit::Kind::kSkipped);
  EXPECT_EQ(divergence->edits[0].number, 100);
}

}  // namespace
}  // namespace paramedic::cluster
