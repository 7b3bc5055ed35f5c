// The ranks of a group do not make the same collective: another operation, type, size or root.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "cluster/compare.h"
#include "cluster/hang.h"
#include "cluster/mismatch.h"
#include "cluster/watch.h"

namespace paramedic::cluster {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
// Ranks that have not come to the call yet are waited for: they have votes too.
constexpr int64_t kVotesNs = 3 * kSecondNs;
// From fewer calls than this a line is not known to be the usual one.
constexpr size_t kUsualMin = 8;
// Ranks that make so many calls in a row from the same lines are together.
constexpr size_t kTogether = 8;

size_t calls_from(const Group& group, const store::CallSite* site, int64_t before) {
  size_t count = 0;
  for (const auto& [rank, track] : group.tracks) {
    for (int64_t number = track.first; number < std::min(before, track.entered()); ++number) {
      count += track.at(number)->where == site ? 1 : 0;
    }
  }
  return count;
}

// Ranks may part before their calls do: an extra forward pass of a sharded model makes the calls of
// the next step, from another line. The first call up to `number` that `rank` makes from another
// line than `other` since they went together, where nobody called from that line before and the
// other's is the usual one; nothing where it is not so.
std::optional<int64_t> new_line(const Group& group, int64_t number, int32_t rank, int32_t other) {
  const Track& own = group.tracks.at(rank);
  const Track& theirs = group.tracks.at(other);
  std::optional<int64_t> first;
  size_t together = 0;  // calls in a row from the same line
  for (int64_t i = number; own.at(i) != nullptr && theirs.at(i) != nullptr; --i) {
    if (own.at(i)->where->line <= 0 || together == kTogether) break;
    together = own.at(i)->where == theirs.at(i)->where ? together + 1 : 0;
    if (together == 0) first = i;
  }
  if (!first || calls_from(group, own.at(*first)->where, *first) > 0) return std::nullopt;
  const bool is_usual = calls_from(group, theirs.at(*first)->where, *first) >= kUsualMin;
  return is_usual ? first : std::nullopt;
}

class CollectiveMismatch : public Watch {
 public:
  using Watch::Watch;

  void tick(const Moment& moment) override {
    if (job().groups().rows() == rows_ && first_seen_ns_.empty()) return;
    rows_ = job().groups().rows();
    look(moment.time_ns, false);
  }
  void finish() override { look(job().time_ns(), true); }

 private:
  void look(int64_t time_ns, bool is_over) {
    for (const auto& [key, group] : job().groups().all()) {
      if (told_.contains(key)) continue;
      int64_t& compared = compared_[key];
      const auto calls = group.calls(compared);
      const auto divergence = first_divergence(calls);
      if (!divergence) {
        compared = compared_by_all(group, compared);
        continue;
      }
      const int64_t first_seen_ns = first_seen_ns_.try_emplace(key, time_ns).first->second;
      size_t votes = 0;
      for (const Divergence::Camp& camp : divergence->camps) votes += camp.ranks.size();
      if (votes < group.ranks.size() && time_ns - first_seen_ns < kVotesNs && !is_over) continue;
      told_.insert(key);
      first_seen_ns_.erase(key);
      report(finding_of(group, *divergence), key);
    }
  }

  // What all members have called and is the same needs not be compared again.
  static int64_t compared_by_all(const Group& group, int64_t compared) {
    if (group.tracks.size() < group.ranks.size()) return compared;
    int64_t all = INT64_MAX;
    for (const auto& [rank, track] : group.tracks) all = std::min(all, track.entered());
    return std::max(compared, all);
  }

  [[nodiscard]] rules::Finding finding_of(const Group& group, const Divergence& divergence) const {
    const auto words = [&](int32_t rank, int64_t number) -> CallWords {
      const Call& call = *group.tracks.at(rank).at(number);
      return {describe(job().groups().signature(call.signature)), *call.where,
              call.left_ns == 0 ? "still inside" : "returned: its result is wrong"};
    };
    Mismatch mismatch = describe_mismatch(
        divergence, "group " + (group.description.empty() ? group.name : group.description), words);
    const int64_t number = begin_of(group, divergence, mismatch);
    const Call& call = *group.tracks.at(mismatch.shown).at(number);
    if (call.step >= 0) mismatch.finding.step = call.step;
    mismatch.finding.evidence.emplace_back("rests on the calls seen in the processes");
    return std::move(mismatch.finding);
  }

  // The call with which the odd rank went its own way; it may decide between two.
  static int64_t begin_of(const Group& group, const Divergence& divergence, Mismatch& mismatch) {
    const auto& camps = divergence.camps;
    rules::Finding& finding = mismatch.finding;
    const bool is_tie = !divergence.has_majority && camps.size() == 2 &&
                        camps[0].ranks.size() == 1 && camps[1].ranks.size() == 1;
    if (!is_tie && !finding.rank) return divergence.number;
    int32_t odd = finding.rank.value_or(camps.back().ranks.front());
    const int32_t other = camps.front().ranks.front();
    auto first = new_line(group, divergence.number, odd, other);
    if (is_tie) {
      const auto turned = new_line(group, divergence.number, other, odd);
      if (first.has_value() == turned.has_value()) return divergence.number;
      if (turned) odd = other;
      if (turned) first = turned;
      finding.rank = odd;
      finding.confidence = 0.8;
    }
    if (!first) return divergence.number;
    mismatch.shown = odd;
    const store::CallSite& site = *group.tracks.at(odd).at(*first)->where;
    finding.where = where_of(site);
    finding.evidence.push_back(
        fmt::format("rank {} went its own way at {}, from which nobody called anything before", odd,
                    place(site)));
    return *first;
  }

  uint64_t rows_ = 0;
  std::map<std::string, int64_t> compared_;       // by group: numbers before are the same
  std::map<std::string, int64_t> first_seen_ns_;  // by group, of a divergence that is not told yet
  std::set<std::string> told_;                    // what follows in a group is a consequence
};

}  // namespace

WatchEntry collective_mismatch_watch() {
  return {
      {"collective_mismatch",
       rules::Severity::kError,
       "The ranks of a group do not make the same collective",
       "At the same place in the order of a group's collectives the ranks called another "
       "operation, another type, another number of values, or another root. The strict "
       "majority is taken to be right; of a tie both sides are told, and of two ranks the one that "
       "went there from a line nobody had called from before. It need not hang: sizes "
       "that differ and yet return give wrong results silently.",
       "let all ranks of the group make the same calls in the same order, with tensors of one "
       "type and size; pad what is uneven, or use the calls for objects or uneven splits",
       {}},
      &make_watch<CollectiveMismatch>};
}

}  // namespace paramedic::cluster
