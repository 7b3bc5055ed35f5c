#pragma once
// What a watch is: metadata written once beside it, and callbacks over the rows of all ranks of a
// job, which a rule (rules/rule.h) never sees together. Rows of one process arrive in its order;
// those of different processes in any order, and late. Unlike a rule, a watch is also told the
// time and how the processes stand: that nothing happens is what it looks for. One thread.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rules/engine.h"
#include "rules/finding.h"
#include "store/rows.h"

namespace paramedic::cluster {

// A process of the job that has a ring, as the agent sees it from outside.
struct RankProcess {
  int32_t rank = 0;
  int32_t pid = 0;
  uint64_t ring_id = 0;
  int32_t world_size = 1;
  bool closed = false;  // it ended in good order
  bool alive = false;
  char state = '?';     // as in /proc/PID/stat: R S D T Z; ? when it cannot be read
  std::string wait;     // the kernel function it sleeps in; "" when it runs or is not told
  uint64_t cpu_ms = 0;  // used by all of its threads up to now
  int64_t last_step = -1;
  int64_t last_step_time_ns = 0;
};

// One look at the job. Both outlive the call only.
struct Moment {
  int64_t time_ns = 0;                 // wall clock, as in Origin
  std::vector<RankProcess> processes;  // by rank, then in the order of their start
};

// Takes what a watch found. The first report of a (rank, topic) opens the problem; later ones
// replace it. id and fix are added, and the time of the first one is kept.
class Reporter {
 public:
  Reporter() = default;
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;
  virtual ~Reporter() = default;
  // `topic` tells problems of one watch and rank apart; "" where there is only one.
  virtual void report(rules::Finding finding, const std::string& topic) = 0;
};

class Watch {
 public:
  // The reporter outlives the watch.
  explicit Watch(Reporter& reporter) : reporter_(reporter) {}
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  virtual ~Watch() = default;

  virtual void on_stats(const store::StatsRow&) {}
  virtual void on_scalar(const store::ScalarRow&) {}
  virtual void on_event(const store::EventRow&) {}
  virtual void on_model(const store::ModelRow&) {}
  virtual void on_collective(const store::CollectiveRow&) {}
  virtual void on_metric(const store::MetricRow&) {}
  // About twice a second, after all rows that had come by then.
  virtual void tick(const Moment&) {}
  // The job has ended: every row has come.
  virtual void finish() {}

 protected:
  void report(rules::Finding finding, const std::string& topic = "") {
    reporter_.report(std::move(finding), topic);
  }

 private:
  Reporter& reporter_;
};

struct WatchEntry {
  rules::RuleInfo info;
  std::unique_ptr<Watch> (*make)(Reporter&);
};

template <typename T>
std::unique_ptr<Watch> make_watch(Reporter& reporter) {
  return std::make_unique<T>(reporter);
}

// All watches, in the order of watches/list.inc (registry.cc).
const std::vector<WatchEntry>& watch_entries();

}  // namespace paramedic::cluster
