// A rank that ended for want of memory.

#include <fmt/format.h>

#include <string>
#include <utility>

#include "cluster/ends.h"
#include "cluster/hang.h"
#include "cluster/watch.h"

namespace paramedic::cluster {
namespace {

class RankOutOfMemory : public Watch {
 public:
  using Watch::Watch;

  void tick(const Moment&) override { look(false); }
  void finish() override { look(true); }

 private:
  void look(bool is_over) {
    const auto death = first_death(job(), is_over);
    if (!death || !death->ran_out_of_memory) return;
    const Rank& rank = *job().ranks().find(death->rank);
    if (std::exchange(told_, rank.process.ring_id) == rank.process.ring_id) return;
    rules::Finding finding;
    finding.severity = rules::Severity::kError;
    finding.rank = death->rank;
    if (rank.process.last_step >= 0) finding.step = rank.process.last_step;
    if (rank.exiting) finding.where = where_of(rank.exiting->where);
    if (death->end == End::kSignal) {
      finding.confidence = 0.85;
      finding.message = fmt::format(
          "rank {} (pid {}) was killed by signal 9 while the kernel killed for want of memory",
          death->rank, rank.process.pid);
      finding.evidence.emplace_back("oom_kill of the control group grew at that time");
    } else {
      finding.confidence = 0.95;
      finding.message = fmt::format("rank {} (pid {}) could not get memory: {}", death->rank,
                                    rank.process.pid, rank.exiting->in_words());
      finding.evidence.emplace_back("the exception that ended it");
    }
    report(std::move(finding));
  }

  uint64_t told_ = 0;
};

}  // namespace

WatchEntry rank_out_of_memory_watch() {
  return {
      {"rank_out_of_memory",
       rules::Severity::kError,
       "A rank has run out of memory and the others have not",
       "A rank has ended with MemoryError or OutOfMemoryError, or by SIGKILL while the kernel's "
       "count of kills for want of memory grew in the job's control group within 8 s of it.",
       "compare the sizes of this rank's batches with the others'; raise its limit (ulimit -v, "
       "the control group's memory.max), or use smaller batches",
       {}},
      &make_watch<RankOutOfMemory>};
}

}  // namespace paramedic::cluster
