#pragma once
// How much of the machine's cores others use than the job, from the agent's metrics. One thread.

#include <cstdint>
#include <map>

#include "store/rows.h"

namespace paramedic::cluster {

class Neighbours {
 public:
  void on_metric(const store::MetricRow& row);

  // Cores of the machine; 0 when that was not told.
  [[nodiscard]] double cores() const { return cores_; }
  // Cores that processes outside of the job were using when it was sampled last.
  [[nodiscard]] double cores_used() const;

 private:
  int64_t time_ns_ = 0;  // of the newest sample
  double cores_ = 0;
  double busy_percent_ = 0;                // of the whole machine
  std::map<int32_t, double> job_percent_;  // of one core, by process
};

}  // namespace paramedic::cluster
