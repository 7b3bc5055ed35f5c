#pragma once
// Which jobs a folder holds: a run folder is a job, so is a folder with one log for each rank, and
// so is every other log by itself. Blocking.

#include <string>
#include <vector>

#include "base/status.h"
#include "diagnose/input.h"

namespace paramedic::fleet {

constexpr size_t kJobsMax = 1'000'000;

struct JobPath {
  std::string path;  // of the run, the folder of ranks, or the log
  std::string name;  // below the folder that was asked about
  bool is_run = false;
  std::vector<diagnose::Input> logs;  // of a run too
};

// In the order of their names. An error when `dir` is no folder that can be read.
Result<std::vector<JobPath>> find_jobs(const std::string& dir);

}  // namespace paramedic::fleet
