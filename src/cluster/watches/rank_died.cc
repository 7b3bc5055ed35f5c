// A rank that is gone while the others go on, or wait for it.

#include <fmt/format.h>

#include <map>
#include <set>
#include <utility>

#include "cluster/watch.h"

namespace paramedic::cluster {
namespace {

class RankDied : public Watch {
 public:
  using Watch::Watch;

  void tick(const Moment& moment) override {
    bool all_gone = true;
    for (const RankProcess& process : moment.processes) {
      all_gone = all_gone && !process.alive;
    }
    // The end of the job takes all of them, in some order: only who goes alone is told.
    if (all_gone || moment.processes.size() < 2) return;
    for (const RankProcess& process : moment.processes) {
      if (process.alive || process.closed || !told_.insert(process.ring_id).second) continue;
      rules::Finding finding;
      finding.severity = rules::Severity::kError;
      finding.rank = process.rank;
      if (process.last_step >= 0) finding.step = process.last_step;
      finding.confidence = 0.95;
      finding.message = fmt::format(
          "rank {} (pid {}) died without ending in good order, {}", process.rank, process.pid,
          process.last_step < 0 ? std::string("before its first step")
                                : fmt::format("after step {}", process.last_step));
      report(std::move(finding));
    }
  }

 private:
  std::set<uint64_t> told_;
};

}  // namespace

WatchEntry rank_died_watch() {
  return {{"rank_died",
           rules::Severity::kError,
           "A rank is gone and the others are not",
           "The process of a rank has ended without the interpreter's own end while other ranks "
           "still run: killed by a signal, by the kernel for want of memory, or by os._exit.",
           "read what this rank said last: the errors of the other ranks are consequences",
           {}},
          &make_watch<RankDied>};
}

}  // namespace paramedic::cluster
