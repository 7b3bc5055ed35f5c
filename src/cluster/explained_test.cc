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

}  // namespace
}  // namespace paramedic::cluster
