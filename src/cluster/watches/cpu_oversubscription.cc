// More threads than cores: those of each rank wait for each other at the end of every loop, and
// the ranks for one another.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cluster/pace.h"
#include "cluster/watch.h"

namespace paramedic::cluster {
namespace {

// Twice as many threads as cores still share them decently, and are found in many a healthy job.
constexpr int kThreadsACoreMax = 2;

class CpuOversubscription : public Watch {
 public:
  using Watch::Watch;

  void on_event(const store::EventRow& row) override {
    if (pace_.on_event(row)) told_all_ = false;
  }

  void tick(const Moment&) override {
    if (std::exchange(told_all_, true)) return;
    const auto standings = pace_.standings();
    int threads = 0;
    int most = 0;
    int cores = 0;
    for (const auto& [rank, standing] : standings) {
      threads += standing.threads;
      most = std::max(most, standing.threads);
      cores = std::max(cores, standing.cores);
    }
    const auto ranks = static_cast<int>(standings.size());
    if (ranks < 2 || cores <= 0 || threads <= cores || ranks == told_ranks_) return;
    told_ranks_ = ranks;
    tell(standings, {ranks, threads, most, cores});
  }

 private:
  struct Count {
    int ranks;
    int threads;
    int most;  // of a rank
    int cores;
  };

  void tell(const std::map<int32_t, PaceStanding>& standings, const Count& count) {
    rules::Finding finding;
    const bool is_loud = count.most > 1 && count.threads > kThreadsACoreMax * count.cores;
    finding.severity = is_loud ? rules::Severity::kWarning : rules::Severity::kInfo;
    finding.value = static_cast<double>(count.threads) / count.cores;
    finding.threshold = kThreadsACoreMax;
    finding.confidence = is_loud ? 0.9 : 0.6;
    finding.stage = "start";
    finding.message = fmt::format("{} ranks with {} compute threads in all share {} cores",
                                  count.ranks, count.threads, count.cores);
    for (const auto& [rank, standing] : standings) {
      if (!standing.threads_set) continue;
      finding.where = standing.threads_set;
      finding.evidence.push_back(fmt::format("torch.set_num_threads at {}:{}",
                                             standing.threads_set->file,
                                             standing.threads_set->line));
      break;
    }
    finding.fix = fmt::format("set OMP_NUM_THREADS={} for each rank{}",
                              std::max(1, count.cores / count.ranks),
                              count.ranks > count.cores ? ", and start fewer ranks here" : "");
    report(std::move(finding));
  }

  Pace pace_;
  bool told_all_ = true;
  int told_ranks_ = 0;
};

}  // namespace

WatchEntry cpu_oversubscription_watch() {
  return {{"cpu_oversubscription",
           rules::Severity::kWarning,
           "The ranks of a machine compute with more threads than it has cores",
           "The compute threads of all ranks of a machine (torch.get_num_threads) are more than "
           "twice as many as the cores that they may use (affinity and CPU limit of the control "
           "group), and a rank has more than one. With one thread a rank it is told as info.",
           "set OMP_NUM_THREADS to the number of cores divided by the ranks of the machine",
           {}},
          &make_watch<CpuOversubscription>};
}

}  // namespace paramedic::cluster
