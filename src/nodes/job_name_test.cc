#include "nodes/job_name.h"

#include <gtest/gtest.h>

#include <map>

#include "nodes/parcel.h"

namespace paramedic::nodes {
namespace {

std::string name_with(const std::map<std::string, std::string>& environment) {
  return job_name([&](const char* name) {
    const auto known = environment.find(name);
    return known == environment.end() ? nullptr : known->second.c_str();
  });
}

TEST(JobName, is_what_the_scheduler_calls_the_job_on_all_nodes) {
  EXPECT_EQ(name_with({{"SLURM_JOB_ID", "4711"}, {"SLURM_NODEID", "3"}}), "slurm-4711");
  EXPECT_EQ(name_with({{"PBS_JOBID", "12[3].head"}}), "pbs-12_3_.head");
  EXPECT_EQ(name_with({{"LSB_JOBID", "9"}}), "lsf-9");
  EXPECT_EQ(name_with({{"FLUX_JOB_ID", "\u0192A7b"}}), "flux-__A7b");
  EXPECT_EQ(name_with({{"PMIX_NAMESPACE", "prterun-head-77@1"}}), "mpi-prterun-head-77_1");
  EXPECT_EQ(name_with({{"TRAINING_JOB_NAME", "bert-2026"}}), "sagemaker-bert-2026");
  EXPECT_EQ(name_with({{"SLURM_JOB_ID", "4711"}, {"RAY_JOB_ID", "02000000"}}), "ray-02000000");
}

TEST(JobName, is_none_where_every_node_has_another_or_nobody_tells) {
  EXPECT_EQ(name_with({}), "");
  EXPECT_EQ(name_with({{"SLURM_JOB_ID", ""}}), "");
  // The name of a pod is its own.
  EXPECT_EQ(name_with({{"HOSTNAME", "train-0-x7f"}, {"JOB_COMPLETION_INDEX", "0"}}), "");
}

TEST(JobName, is_the_name_of_a_folder_whatever_it_is_told) {
  EXPECT_TRUE(is_plain_name(name_with({{"TRAINING_JOB_NAME", std::string(500, '/')}})));
  EXPECT_TRUE(is_plain_name(name_with({{"SLURM_JOB_ID", "../../etc"}})));
}

}  // namespace
}  // namespace paramedic::nodes
