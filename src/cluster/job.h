#pragma once
// What all watches share about the job: how its ranks stand and which collectives they called. The
// cluster keeps it up to date before a watch is told of the same row or moment. One thread.

#include <algorithm>
#include <cstdlib>
#include <deque>

#include "cluster/groups.h"
#include "cluster/moment.h"
#include "cluster/ranks.h"

namespace paramedic::cluster {

class Job {
 public:
  static constexpr size_t kOomKillsMax = 64;  // the newest are kept
  // The count is read once a second, and an end is seen at the next look; both late on a
  // machine that has no memory left.
  static constexpr int64_t kNearNs = 8'000'000'000;

  void take(const store::EventRow& row) { ranks_.take(row); }
  void take(const store::CollectiveRow& row) { groups_.take(row); }
  void take(const store::MetricRow& row) {
    if (row.name != "cgroup_oom_kills") return;
    // A job that changes its group begins at another count.
    if (oom_kills_ >= 0 && row.value > oom_kills_) oom_kill_times_ns_.push_back(row.time_ns);
    if (oom_kill_times_ns_.size() > kOomKillsMax) oom_kill_times_ns_.pop_front();
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
  // The kernel has killed a process of the job's control group for want of memory about then. The
  // group may be shared with other jobs, so that a kill at another time tells nothing of this one.
  [[nodiscard]] bool had_oom_kill_near(int64_t time_ns) const {
    return std::any_of(oom_kill_times_ns_.begin(), oom_kill_times_ns_.end(),
                       [&](int64_t kill_ns) { return std::abs(kill_ns - time_ns) <= kNearNs; });
  }

 private:
  Ranks ranks_;
  Groups groups_;
  int64_t time_ns_ = 0;
  double oom_kills_ = -1;
  std::deque<int64_t> oom_kill_times_ns_;
};

}  // namespace paramedic::cluster
