// One rank does not come to a collective in which the others wait for it.

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "cluster/closures.h"
#include "cluster/ends.h"
#include "cluster/hang.h"

namespace paramedic::cluster {
namespace {

class HangMissingRank : public HangWatch {
 public:
  using HangWatch::HangWatch;

  void on_event(const store::EventRow& row) override { closures_.take(row); }

  void tick(const Moment& moment) override {
    HangWatch::tick(moment);
    look_for_departure();
    look_for_stuck_worker();
  }
  void finish() override {
    HangWatch::finish();
    look_for_departure();
  }

 protected:
  [[nodiscard]] std::optional<rules::Finding> finding_of(const Stall& stall,
                                                         double waited_s) const override {
    const auto camps = camps_of(stall);
    for (const Suspect& suspect : stall.suspects) {
      const Rank& rank = *job().ranks().find(suspect.rank);
      // Of a rank that died rank_died tells; of one that left it has been told.
      if (is_bad(end_of(job(), rank)) || departed_ == rank.process.ring_id) return std::nullopt;
    }
    // More than one rank is somewhere else, and one waits alone: it is the odd one.
    if (stall.suspects.size() > 1 && stall.waiters.size() == 1) {
      return of_lone_waiter(stall, stall.waiters.front(), "which the others did not call",
                            waited_s);
    }
    if (!stall.suspects.empty()) return of_suspects(stall, waited_s);
    const auto odd = odd_waiter(stall);
    if (!odd) return std::nullopt;
    // There is one, or nobody would wait for it.
    const Camp& camp = *std::find_if(camps.begin(), camps.end(), [&](const Camp& one) {
      return std::find(one.ranks.begin(), one.ranks.end(), odd->rank) == one.ranks.end();
    });
    return of_lone_waiter(stall, *odd,
                          fmt::format("while {} {} in {} ({})", name_ranks(camp.ranks),
                                      camp.ranks.size() == 1 ? "waits" : "wait",
                                      camp.waiter.operation, place(camp.waiter.where)),
                          waited_s);
  }

 private:
  // Of parameter servers: the coordinator waits for what it sent to a worker.
  void look_for_stuck_worker() {
    auto finding = closures_.stuck_worker(job());
    if (!finding || !stuck_told_.insert(*finding->rank).second) return;
    report(std::move(*finding), "worker");
  }

  // A rank that ended well while the others still needed it: they fail before they wait for long.
  void look_for_departure() {
    if (has_told()) return;
    const auto departure = first_departure(job());
    if (!departure) return;
    const Rank& departed = *job().ranks().find(departure->rank);
    if (std::exchange(departed_, departed.process.ring_id) == departed.process.ring_id) return;
    rules::Finding finding;
    finding.severity = rules::Severity::kError;
    finding.rank = departure->rank;
    finding.confidence = 0.9;
    std::vector<int32_t> victims;
    for (const auto& [number, rank] : job().ranks().all()) {
      if (!rank.exiting || !rank.exiting->has_exception) continue;
      victims.push_back(number);
      if (!finding.where) finding.where = where_of(rank.exiting->where);
      finding.evidence.push_back(fmt::format("rank {} failed at {}: {}", number,
                                             place(rank.exiting->where),
                                             rank.exiting->message.substr(0, 200)));
    }
    // What the rank itself called last, where that is known.
    if (const Call* last = last_call(departure->rank)) finding.where = where_of(*last->where);
    finding.message = fmt::format(
        "rank {} ended without an error while {} still went on and failed for want of it",
        departure->rank, name_ranks(victims));
    finding.evidence.emplace_back("rests on how the processes ended");
    report(std::move(finding), "departure");
  }

  [[nodiscard]] const Call* last_call(int32_t rank) const {
    const Call* last = nullptr;
    for (const auto& [key, group] : job().groups().all()) {
      const auto track = group.tracks.find(rank);
      if (track == group.tracks.end() || track->second.calls.empty()) continue;
      const Call& call = track->second.calls.back();
      if (call.where->line > 0 && (last == nullptr || call.entered_ns > last->entered_ns)) {
        last = &call;
      }
    }
    return last;
  }

  [[nodiscard]] rules::Finding of_suspects(const Stall& stall, double waited_s) const {
    rules::Finding finding;
    const Suspect& suspect = stall.suspects.front();
    std::vector<int32_t> ranks;
    for (const Suspect& one : stall.suspects) ranks.push_back(one.rank);
    if (ranks.size() == 1) finding.rank = suspect.rank;
    store::CallSite where = suspect.where;
    // Of a rank that has left, or that tells nothing, the place at which it is missed.
    const Camp camp = camps_of(stall).front();
    if (where.line <= 0) where = camp.waiter.where;
    finding.where = where_of(where);
    std::string who = name_ranks(ranks) + " have";
    if (ranks.size() == 1) {
      const std::string at = suspect.where.line > 0 ? " at " + place(suspect.where) : "";
      who = fmt::format("rank {} {}{} and has", suspect.rank, suspect.what, at);
    }
    finding.message =
        fmt::format("{} not come to {} ({}), in which {} {} since {}", who, camp.waiter.operation,
                    place(camp.waiter.where), name_ranks(camp.ranks),
                    camp.ranks.size() == 1 ? "waits" : "wait", name_duration(waited_s));
    finding.evidence = evidence_of(job(), stall);
    return finding;
  }

  [[nodiscard]] rules::Finding of_lone_waiter(const Stall& stall, const Waiter& lone,
                                              const std::string& others, double waited_s) const {
    rules::Finding finding;
    finding.rank = lone.rank;
    finding.where = where_of(lone.where);
    finding.message =
        fmt::format("rank {} waits in {} ({}) since {}, {}", lone.rank, lone.operation,
                    place(lone.where), name_duration(waited_s), others);
    finding.evidence = evidence_of(job(), stall);
    return finding;
  }

  Closures closures_;
  std::set<int32_t> stuck_told_;
  std::optional<uint64_t> departed_;  // the process of which it was told that it left
};

}  // namespace

WatchEntry hang_missing_rank_watch() {
  return {{"hang_missing_rank",
           rules::Severity::kError,
           "One rank does not come to a collective in which the others wait",
           "Ranks are inside of a collective that another rank has not entered, for longer than "
           "what that rank is doing can take: it sleeps, is stopped, has left, waits for a lock or "
           "in another call, or computes in a loop. How long each may last: docs/cluster.md. A "
           "finding whose job goes on after all becomes an info.",
           "look at the line where this rank stands; every rank of a group has to make the same "
           "calls, so no collective may stand behind a condition on the rank, and loops have to "
           "be of one length (DistributedSampler with drop_last, or DDP's join())",
           {}},
          &make_watch<HangMissingRank>};
}

}  // namespace paramedic::cluster
