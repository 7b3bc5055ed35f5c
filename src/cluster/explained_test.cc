#include "cluster/explained.h"

#include <gtest/gtest.h>

#include "cluster/test_cluster.h"

namespace paramedic::cluster {
namespace {

using rules::Severity;

rules::Finding finding_of(const std::string& id, int32_t rank, int64_t step) {
  rules::Finding finding;
  finding.id = id;
  finding.severity = Severity::kError;
  finding.rank = rank;
  finding.step = step;
  finding.message = "not finite";
  return finding;
}

TEST(explained, a_nan_is_loud_on_the_rank_where_it_was_born_and_an_info_on_the_others) {
  // GIVEN ranks 0 and 1 that have both met a NaN
  Found found;
  Explained explained(found);
  explained.on_finding("nan/0", finding_of("nan_origin", 0, 5));
  explained.on_finding("nan/1", finding_of("nan_origin", 1, 4));
  // WHEN it is found to be of rank 1, and a third rank tells it later
  explained.on_finding("source", finding_of("nan_source_rank", 1, 4));
  explained.on_finding("nan/2", finding_of("nan_origin", 2, 6));
  // THEN rank 1 alone stays loud
  const auto told = found.of("nan_origin");
  ASSERT_EQ(told.size(), 3U);
  for (const rules::Finding& one : told) {
    EXPECT_EQ(one.severity, one.rank == 1 ? Severity::kError : Severity::kInfo);
  }
}

TEST(explained, an_earlier_nan_of_another_rank_stays_as_it_was_told) {
  Found found;
  Explained explained(found);
  explained.on_finding("nan/0", finding_of("nan_origin", 0, 3));
  explained.on_finding("source", finding_of("nan_source_rank", 1, 900));
  EXPECT_EQ(found.of("nan_origin").at(0).severity, Severity::kError);
}

TEST(explained, without_one_rank_that_gave_it_nothing_is_changed) {
  Found found;
  Explained explained(found);
  explained.on_finding("nan/0", finding_of("nan_origin", 0, 4));
  rules::Finding several = finding_of("nan_source_rank", 0, 4);
  several.rank.reset();
  explained.on_finding("source", several);
  EXPECT_EQ(found.of("nan_origin").at(0).severity, Severity::kError);
}

TEST(explained, ranks_that_wait_for_input_are_infos_where_the_job_tells_that_all_do) {
  // GIVEN one rank that has told that it waits for its data
  Found found;
  Explained explained(found);
  explained.on_finding("loader/0", finding_of("dataloader_bottleneck", 0, 5));
  // WHEN the job tells that all wait, and a second rank tells it after that
  rules::Finding all = finding_of("input_bottleneck", 0, 9);
  all.rank.reset();
  explained.on_finding("input", all);
  explained.on_finding("loader/1", finding_of("dataloader_bottleneck", 1, 9));
  // THEN only what the job tells is loud
  for (const rules::Finding& one : found.of("dataloader_bottleneck")) {
    EXPECT_EQ(one.severity, Severity::kInfo) << *one.rank;
  }
  EXPECT_EQ(found.of("input_bottleneck").at(0).severity, Severity::kError);
}

TEST(explained, a_slow_rank_explains_its_own_wait_for_data_until_it_is_taken_back) {
  Found found;
  Explained explained(found);
  rules::Finding slow = finding_of("straggler", 1, 5);
  explained.on_finding("slow", slow);
  explained.on_finding("loader/0", finding_of("dataloader_bottleneck", 0, 6));
  explained.on_finding("loader/1", finding_of("dataloader_bottleneck", 1, 6));
  slow.severity = Severity::kInfo;
  explained.on_finding("slow", slow);
  explained.on_finding("loader/1 again", finding_of("dataloader_bottleneck", 1, 7));
  const auto told = found.of("dataloader_bottleneck");
  ASSERT_EQ(told.size(), 3U);
  for (const rules::Finding& one : told) {
    const bool is_explained = one.rank == 1 && one.step == 6;
    EXPECT_EQ(one.severity, is_explained ? Severity::kInfo : Severity::kError);
  }
}

}  // namespace
}  // namespace paramedic::cluster
