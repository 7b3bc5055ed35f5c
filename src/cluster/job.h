#pragma once
// What all watches share about the job: how its ranks stand and which collectives they called. The
// cluster keeps it up to date before a watch is told of the same row or moment. One thread.

#include "cluster/groups.h"
#include "cluster/moment.h"
#include "cluster/ranks.h"

namespace paramedic::cluster {

class Job {
 public:
  void take(const store::EventRow& row) { ranks_.take(row); }
  void take(const store::CollectiveRow& row) { groups_.take(row); }
  void take(const store::MetricRow& row) {
    if (row.name != "cgroup_oom_kills") return;
    // A job that changes its group begins at another count.
    has_oom_kills_ = has_oom_kills_ || (oom_kills_ >= 0 && row.value > oom_kills_);
    oom_kills_ = row.value;
  }
  void look(const Moment& moment) {
    time_ns_ = moment.time_ns;
    for (const int32_t rank : ranks_.look(moment)) groups_.forget(rank);
  }

  [[nodiscard]] const Ranks& ranks() const { return ranks_; }
  [[nodiscard]] const Groups& groups() const { return groups_; }
  // Of the last look.
  [[nodiscard]] int64_t time_ns() const { return time_ns_; }
  // The kernel has killed a process of the job's control group for want of memory.
  [[nodiscard]] bool has_oom_kills() const { return has_oom_kills_; }

 private:
  Ranks ranks_;
  Groups groups_;
  int64_t time_ns_ = 0;
  double oom_kills_ = -1;
  bool has_oom_kills_ = false;
};

}  // namespace paramedic::cluster
