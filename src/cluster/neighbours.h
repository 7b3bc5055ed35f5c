#pragma once
// Why a rank has no core, from the agent's metrics: what others than the job use of the machine,
// and how long its own control group kept it waiting. One thread.

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
  // Share of the time between the last two samples for which the group of `pid` was held up because
  // it had used what it may.
  [[nodiscard]] double throttled_share(int32_t pid) const;

 private:
  int64_t time_ns_ = 0;  // of the newest sample
  double cores_ = 0;
  double busy_percent_ = 0;                // of the whole machine
  std::map<int32_t, double> job_percent_;  // of one core, by process
  struct Throttled {
    int64_t time_ns = 0;
    double ms = 0;
    double share = 0;
  };
  std::map<int32_t, Throttled> throttled_;  // by process
};

}  // namespace paramedic::cluster
