#pragma once
// What a watch is: metadata written once beside it, and callbacks over the rows of all ranks of a
// job, which a rule (rules/rule.h) never sees together. Rows of one process arrive in its order;
// those of different processes in any order, and late. Unlike a rule, a watch is also told the
// time and how the processes stand: that nothing happens is what it looks for. One thread.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cluster/job.h"
#include "cluster/moment.h"
#include "rules/engine.h"
#include "rules/finding.h"
#include "store/rows.h"

namespace paramedic::cluster {

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
  // What all watches share; outlives them.
  [[nodiscard]] virtual const Job& job() const = 0;
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
  [[nodiscard]] const Job& job() const { return reporter_.job(); }

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
