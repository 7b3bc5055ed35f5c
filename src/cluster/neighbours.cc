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
  if (row.name != "throttled_ms") return;
  if (throttled_.size() >= kProcessesMax && !throttled_.contains(row.pid)) return;
  Throttled& last = throttled_[row.pid];
  const double passed_ms = static_cast<double>(row.time_ns - last.time_ns) / 1e6;
  last.share = last.time_ns > 0 && passed_ms > 0 ? (row.value - last.ms) / passed_ms : 0;
  last.time_ns = row.time_ns;
  last.ms = row.value;
}

double Neighbours::throttled_share(int32_t pid) const {
  const auto known = throttled_.find(pid);
  return known == throttled_.end() ? 0 : known->second.share;
}

double Neighbours::cores_used() const {
  double job = 0;
  for (const auto& [pid, percent] : job_percent_) job += percent;
  return std::max(0.0, (busy_percent_ * cores_ - job) / 100);
}

}  // namespace paramedic::cluster
