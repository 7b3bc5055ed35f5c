#include "fleet/survey.h"

#include <gtest/gtest.h>

#include "base/test_folder.h"

namespace paramedic::fleet {
namespace {

std::vector<JobPath> some_jobs(const TemporaryFolder& folder, int count) {
  for (int i = 0; i < count; ++i) {
    write_file(folder.path() + "/logs/job-" + std::to_string(i) + ".log",
               "2024-05-01 10:00:00 step 1\n2024-05-01 10:00:30 step 2\nKeyError: 'b" +
                   std::to_string(i) + "'\n");
  }
  return std::move(find_jobs(folder.path() + "/logs")).value();
}

TEST(Survey, each_job_is_judged_at_its_place_by_any_number_of_threads) {
  const TemporaryFolder folder;
  const auto paths = some_jobs(folder, 20);
  for (const int threads : {1, 3}) {
    Cache cache(posix_file_system(), "");
    const std::vector<Job> jobs = survey(paths, cache, {threads});
    ASSERT_EQ(jobs.size(), paths.size());
    for (size_t i = 0; i < jobs.size(); ++i) {
      EXPECT_EQ(jobs[i].name, paths[i].name);
      EXPECT_EQ(jobs[i].category, diagnose::Category::kKeyNotFound);
      EXPECT_EQ(jobs[i].seconds, 30);
    }
  }
}

TEST(Survey, what_was_read_before_is_not_read_again) {
  const TemporaryFolder folder;
  const auto paths = some_jobs(folder, 3);
  const std::string path = folder.path() + "/fleet.cache";
  Cache first(posix_file_system(), path);
  const std::vector<Job> read = survey(paths, first, {1});
  ASSERT_TRUE(first.save().ok());
  // What the cache says is believed: so it is seen where an answer came from.
  Cache changed(posix_file_system(), path);
  Job other = read[1];
  other.category = diagnose::Category::kDiskFull;
  changed.add(content_key(paths[1]), to_text(to_json(other)));
  const std::vector<Job> again = survey(paths, changed, {2});
  EXPECT_EQ(again[0].category, diagnose::Category::kKeyNotFound);
  EXPECT_EQ(again[1].category, diagnose::Category::kDiskFull);
  EXPECT_EQ(again[1].name, paths[1].name);
}

TEST(Survey, a_run_is_known_by_its_folder) {
  const TemporaryFolder folder;
  write_file(folder.path() + "/r/run.json",
             R"({"status": "failed", "exit_code": null, "signal": 11, "started": 100, "ended": 160,
                 "world_size": 8, "cwd": "/job", "command": ["python", "train.py"]})");
  write_file(folder.path() + "/r/logs/rank-0.err", "step 3\n");
  const auto paths = find_jobs(folder.path());
  Cache cache(posix_file_system(), "");
  const std::vector<Job> jobs = survey(*paths, cache, {});
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0].category, diagnose::Category::kNativeCrash);
  EXPECT_EQ(jobs[0].machine_seconds(), 480);
  EXPECT_EQ(jobs[0].command, R"(/job:["python","train.py"])");
}

TEST(Survey, a_job_that_cannot_be_read_says_why) {
  const Job job = read_job({"/nowhere", "n", true, {}});
  EXPECT_FALSE(job.problem.empty());
  EXPECT_FALSE(job.has_failed());
}

}  // namespace
}  // namespace paramedic::fleet
