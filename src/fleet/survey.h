#pragma once
// Reads the logs of many jobs, several at a time, each once: what was read before comes from the
// cache. Memory grows with the number of jobs, never with the length of their logs. Blocking.

#include <functional>
#include <string>
#include <vector>

#include "fleet/cache.h"
#include "fleet/find.h"
#include "fleet/job.h"

namespace paramedic::fleet {

struct SurveyOptions {
  int threads = 0;  // 0: one for each processor
  // Now and then: how many jobs are done. From the calling thread.
  std::function<void(size_t)> progress = {};
};

// In the order of `paths`. A job whose logs cannot be read has its `problem` set.
std::vector<Job> survey(const std::vector<JobPath>& paths, Cache& cache,
                        const SurveyOptions& options);

// One of them, without a cache.
Job read_job(const JobPath& path);

}  // namespace paramedic::fleet
