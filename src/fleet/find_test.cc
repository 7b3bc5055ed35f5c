#include "fleet/find.h"

#include <gtest/gtest.h>

#include "base/test_folder.h"

namespace paramedic::fleet {
namespace {

TEST(Find, runs_folders_of_ranks_and_single_logs_are_jobs) {
  const TemporaryFolder folder;
  write_file(folder.path() + "/runs/one/run.json", "{}");
  write_file(folder.path() + "/runs/one/logs/rank-0.err", "x\n");
  write_file(folder.path() + "/runs/one/stats/rank-0-0.arrows", "x");
  write_file(folder.path() + "/many/rank-0.err", "x\n");
  write_file(folder.path() + "/many/rank-1.err", "x\n");
  write_file(folder.path() + "/a.log", "x\n");
  write_file(folder.path() + "/b.log", "x\n");
  write_file(folder.path() + "/train.py", "x\n");
  const auto jobs = find_jobs(folder.path());
  ASSERT_TRUE(jobs.ok());
  ASSERT_EQ(jobs->size(), 4U);
  EXPECT_EQ((*jobs)[0].name, "a.log");
  EXPECT_EQ((*jobs)[1].name, "b.log");
  EXPECT_EQ((*jobs)[2].name, "many");
  EXPECT_EQ((*jobs)[2].logs.size(), 2U);
  EXPECT_EQ((*jobs)[3].name, "runs/one");
  EXPECT_TRUE((*jobs)[3].is_run);
  EXPECT_EQ((*jobs)[3].logs.size(), 1U);
}

TEST(Find, a_folder_that_does_not_exist_is_an_error_and_an_empty_one_holds_no_job) {
  EXPECT_FALSE(find_jobs("/nowhere/at/all").ok());
  const TemporaryFolder folder;
  EXPECT_TRUE(find_jobs(folder.path())->empty());
}

}  // namespace
}  // namespace paramedic::fleet
