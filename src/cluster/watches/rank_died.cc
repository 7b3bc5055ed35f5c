// A rank that has ended badly by itself while the others go on, wait for it, or fail for want of
// it.

#include <fmt/format.h>

#include <csignal>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "cluster/ends.h"
#include "cluster/hang.h"
#include "cluster/watch.h"

namespace paramedic::cluster {
namespace {

std::string how(const RankEnd& death, const Rank& rank) {
  if (death.end == End::kException) return "ended with " + rank.exiting->in_words();
  if (death.end == End::kSignal) {
    return fmt::format("was killed by signal {} ({})", death.signal, ::strsignal(death.signal));
  }
  if (death.exit_code && rank.process.closed) {
    return fmt::format("ended with exit code {}", *death.exit_code);
  }
  if (death.exit_code) {
    return fmt::format("ended with exit code {}, past the interpreter's own end", *death.exit_code);
  }
  return "died without ending in good order";
}

class RankDied : public Watch {
 public:
  using Watch::Watch;

  void tick(const Moment&) override { look(false); }
  void finish() override { look(true); }

 private:
  void look(bool is_over) {
    const auto death = first_death(job(), is_over);
    // rank_out_of_memory has it.
    if (!death || death->ran_out_of_memory) return;
    const Rank& rank = *job().ranks().find(death->rank);
    // What came after the first one is its consequence, unless the job has begun anew.
    if (std::exchange(told_, rank.process.ring_id) == rank.process.ring_id) return;
    rules::Finding finding;
    finding.severity = rules::Severity::kError;
    finding.rank = death->rank;
    if (rank.process.last_step >= 0) finding.step = rank.process.last_step;
    finding.confidence = death->end == End::kExit && !death->exit_code ? 0.85 : 0.95;
    finding.message = fmt::format(
        "rank {} (pid {}) {}, {}", death->rank, rank.process.pid, how(*death, rank),
        rank.process.last_step < 0 ? std::string("before its first step")
                                   : fmt::format("after step {}", rank.process.last_step));
    if (rank.exiting) finding.where = where_of(rank.exiting->where);
    finding.evidence = evidence(death->rank);
    report(std::move(finding));
  }

  [[nodiscard]] std::vector<std::string> evidence(int32_t dead) const {
    std::vector<std::string> lines;
    std::vector<int32_t> victims;
    for (const auto& [number, rank] : job().ranks().all()) {
      if (number != dead && end_of(job(), rank).end == End::kVictim) victims.push_back(number);
    }
    if (!victims.empty()) {
      lines.push_back(name_ranks(victims) + " ended after it, for want of it");
    }
    const Rank& rank = *job().ranks().find(dead);
    if (const StallReport* report = rank.stalled()) {
      const auto line = own_line(report->stack);
      if (line) lines.push_back("it stood last at " + place(*line));
    }
    lines.emplace_back(rank.exiting ? "rests on /proc and on what the process told"
                                    : "rests on /proc alone");
    return lines;
  }

  uint64_t told_ = 0;
};

}  // namespace

WatchEntry rank_died_watch() {
  return {{"rank_died",
           rules::Severity::kError,
           "A rank is gone and the others are not",
           "A rank has ended by a signal, by os._exit or an exit code, or with an exception of its "
           "own, while other ranks still run or fail afterwards for want of it. Only the first "
           "such end is told; one that all ranks meet is no fault of one of them.",
           "read what this rank said last: the errors of the other ranks are consequences",
           {}},
          &make_watch<RankDied>};
}

}  // namespace paramedic::cluster
