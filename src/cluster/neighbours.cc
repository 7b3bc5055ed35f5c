#include "cluster/neighbours.h"

#include <algorithm>

namespace paramedic::cluster {
namespace {

constexpr size_t kProcessesMax = 4096;

}  // namespace

void Neighbours::on_metric(const store::MetricRow& row) {
  if (row.time_ns != time_ns_) job_percent_.clear();
  time_ns_ = row.time_ns;
  if (row.name == "machine_cores") cores_ = row.value;
  if (row.name == "machine_cpu_percent") busy_percent_ = row.value;
  if (row.name == "cpu_percent" && job_percent_.size() < kProcessesMax) {
    job_percent_[row.pid] = row.value;
  }
}

double Neighbours::cores_used() const {
  double job = 0;
  for (const auto& [pid, percent] : job_percent_) job += percent;
  return std::max(0.0, (busy_percent_ * cores_ - job) / 100);
}

}  // namespace paramedic::cluster
