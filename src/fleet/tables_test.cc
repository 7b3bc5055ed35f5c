#include "fleet/tables.h"

#include <gtest/gtest.h>

namespace paramedic::fleet {
namespace {

using diagnose::Category;
using diagnose::Domain;
using diagnose::Retry;
using diagnose::Stage;

Job job(const std::string& name, Category category, double started) {
  Job made;
  made.name = name;
  made.owner = "ada";
  made.category = category;
  made.domain = diagnose::info(category).domain;
  made.retry = diagnose::info(category).retry;
  made.stage = Stage::kTrain;
  made.fingerprint = std::string(diagnose::name(category)) + ":train.main:m";
  made.started = started;
  made.seconds = 100;
  made.ranks = 4;
  return made;
}

TEST(Tables, count_the_failed_jobs_with_the_machine_time_that_they_lost) {
  const Tables tables =
      make_tables({job("a", Category::kPathNotFound, 1), job("b", Category::kPathNotFound, 2),
                   job("c", Category::kGpuOutOfMemory, 3), job("d", Category::kNoFailure, 4)});
  EXPECT_EQ(tables.jobs, 4U);
  EXPECT_EQ(tables.failed, 3U);
  EXPECT_EQ(tables.finished, 1U);
  EXPECT_EQ(tables.machine_s, 1600);
  EXPECT_EQ(tables.lost_s, 1200);
  ASSERT_EQ(tables.categories.size(), 2U);
  EXPECT_EQ(tables.categories[0].name, "path_not_found");
  EXPECT_EQ(tables.categories[0].count, 2U);
  EXPECT_EQ(tables.categories[0].machine_s, 800);
  EXPECT_EQ(tables.stages.front().name, "train");
  EXPECT_EQ(tables.causes.front().name, "environment difference");
}

TEST(Tables, of_nothing_are_empty) {
  const Tables tables = make_tables({});
  EXPECT_EQ(tables.failed, 0U);
  EXPECT_TRUE(tables.categories.empty());
  EXPECT_EQ(to_json(tables)["lost_machine_s"], 0);
}

TEST(Tables, a_failure_that_came_back_names_who_met_it_first) {
  Job later = job("late", Category::kKeyNotFound, 20);
  Job first = job("early", Category::kKeyNotFound, 10);
  first.owner = "bob";
  const Tables tables = make_tables({later, first, job("x", Category::kLossNan, 5)});
  ASSERT_EQ(tables.repeated.size(), 1U);
  EXPECT_EQ(tables.repeated[0].first_job, "early");
  EXPECT_EQ(tables.repeated[0].first_owner, "bob");
  EXPECT_EQ(tables.repeated[0].count, 2U);
  EXPECT_EQ(tables.repeated[0].owners, 2U);
}

TEST(Tables, a_retry_is_useless_when_the_same_command_fails_the_same_way_again) {
  std::vector<Job> jobs;
  for (int i = 0; i < 3; ++i) {
    jobs.push_back(job("run-" + std::to_string(i), Category::kKeyNotFound, 10 + i));
    jobs.back().command = "/job:[python train.py]";
  }
  Tables tables = make_tables(jobs);
  EXPECT_EQ(tables.useless_retries, 2U);
  EXPECT_EQ(tables.useless_s, 800);
  ASSERT_EQ(tables.useless.size(), 1U);
  EXPECT_EQ(tables.useless[0].retry, Retry::kNever);
  EXPECT_EQ(tables.useless[0].last_job, "run-2");
  // A success between them parts them.
  jobs[1].category = Category::kNoFailure;
  EXPECT_EQ(make_tables(jobs).useless_retries, 0U);
}

TEST(Tables, jobs_that_run_or_cannot_be_read_are_counted_apart) {
  Job running = job("a", Category::kUnknown, 1);
  running.is_running = true;
  Job unreadable = job("b", Category::kUnknown, 2);
  unreadable.problem = "permission denied";
  const Tables tables = make_tables({running, unreadable});
  EXPECT_EQ(tables.failed, 0U);
  EXPECT_EQ(tables.running, 1U);
  EXPECT_EQ(tables.unreadable, 1U);
  EXPECT_EQ(tables.finished, 0U);
}

TEST(Tables, days_are_in_the_order_of_time) {
  const Tables tables = make_tables({job("b", Category::kLossNan, 3 * 86400 + 5),
                                     job("a", Category::kNoFailure, 86400 + 5),
                                     job("c", Category::kLossNan, 3 * 86400 + 9)});
  ASSERT_EQ(tables.days.size(), 2U);
  EXPECT_EQ(tables.days[0].day, 1);
  EXPECT_EQ(tables.days[0].failed, 0U);
  EXPECT_EQ(tables.days[1].failed, 2U);
}

}  // namespace
}  // namespace paramedic::fleet
