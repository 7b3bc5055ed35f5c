// The ranks of a group do not make the same collective: another operation, type, size or root.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cluster/compare.h"
#include "cluster/hang.h"
#include "cluster/watch.h"

namespace paramedic::cluster {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
// Ranks that have not come to the call yet are waited for: they have votes too.
constexpr int64_t kVotesNs = 3 * kSecondNs;
constexpr size_t kCampsMax = 6;

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
    rules::Finding finding;
    finding.severity = rules::Severity::kError;
    std::vector<int32_t> odd;
    if (divergence.has_majority) {
      for (const Edit& edit : divergence.edits) odd.push_back(edit.rank);
    }
    if (odd.size() == 1) finding.rank = odd.front();
    const int32_t shown = odd.empty() ? divergence.camps.back().ranks.front() : odd.front();
    const Call& call = *group.tracks.at(shown).at(divergence.number);
    finding.where = where_of(call.where);
    if (call.step >= 0) finding.step = call.step;
    finding.confidence = divergence.has_majority ? 0.95 : 0.9;
    finding.message = divergence.has_majority ? against_majority(group, divergence, odd)
                                              : of_a_tie(group, divergence);
    for (size_t i = 0; i < std::min(divergence.camps.size(), kCampsMax); ++i) {
      finding.evidence.push_back(camp_line(group, divergence, divergence.camps[i]));
    }
    if (divergence.has_majority) add_edit(group, divergence, finding);
    finding.evidence.emplace_back("rests on the calls seen in the processes");
    return finding;
  }

  [[nodiscard]] std::string call_of(const Group& group, const Divergence& divergence,
                                    const Divergence::Camp& camp) const {
    const Call& call = *group.tracks.at(camp.ranks.front()).at(divergence.number);
    return fmt::format("{} ({})", describe(job().groups().signature(camp.signature)),
                       place(call.where));
  }

  [[nodiscard]] std::string against_majority(const Group& group, const Divergence& divergence,
                                             const std::vector<int32_t>& odd) const {
    const auto camp = std::find_if(
        divergence.camps.begin(), divergence.camps.end(), [&](const Divergence::Camp& one) {
          return std::find(one.ranks.begin(), one.ranks.end(), odd.front()) != one.ranks.end();
        });
    return fmt::format("{} called {} where {} called {}, as call {} of group {}",
                       name_ranks(camp->ranks), call_of(group, divergence, *camp),
                       name_ranks(divergence.camps.front().ranks),
                       call_of(group, divergence, divergence.camps.front()), divergence.number,
                       group.description.empty() ? group.name : group.description);
  }

  [[nodiscard]] std::string of_a_tie(const Group& group, const Divergence& divergence) const {
    std::string text =
        fmt::format("call {} of group {} is not the same on all ranks: ", divergence.number,
                    group.description.empty() ? group.name : group.description);
    for (size_t i = 0; i < std::min(divergence.camps.size(), kCampsMax); ++i) {
      text +=
          fmt::format("{}{} called {}", i == 0 ? "" : ", ", name_ranks(divergence.camps[i].ranks),
                      call_of(group, divergence, divergence.camps[i]));
    }
    return text + "; no side has the majority";
  }

  [[nodiscard]] std::string camp_line(const Group& group, const Divergence& divergence,
                                      const Divergence::Camp& camp) const {
    const Call& call = *group.tracks.at(camp.ranks.front()).at(divergence.number);
    return fmt::format("{}: {}, {}", name_ranks(camp.ranks), call_of(group, divergence, camp),
                       call.left_ns == 0 ? "still inside" : "returned: its result is wrong");
  }

  void add_edit(const Group& group, const Divergence& divergence, rules::Finding& finding) const {
    for (size_t i = 0; i < std::min(divergence.edits.size(), kCampsMax); ++i) {
      const Edit& edit = divergence.edits[i];
      const char* times = edit.count == 1 ? "" : " and what follows";
      const std::string theirs = call_of(group, divergence, divergence.camps.front());
      if (edit.kind == Edit::Kind::kSkipped) {
        finding.evidence.push_back(
            fmt::format("as if rank {} had skipped {}{}", edit.rank, theirs, times));
      } else if (edit.kind == Edit::Kind::kExtra) {
        finding.evidence.push_back(fmt::format("as if rank {} had made {} call{} more", edit.rank,
                                               edit.count, edit.count == 1 ? "" : "s"));
      } else if (edit.kind == Edit::Kind::kReordered) {
        finding.evidence.push_back(
            fmt::format("rank {} makes the same {} calls in another order", edit.rank, edit.count));
      }
    }
  }

  uint64_t rows_ = 0;
  std::map<std::string, int64_t> compared_;       // by group: numbers before are the same
  std::map<std::string, int64_t> first_seen_ns_;  // by group, of a divergence that is not told yet
  std::set<std::string> told_;                    // what follows in a group is a consequence
};

}  // namespace

WatchEntry collective_mismatch_watch() {
  return {{"collective_mismatch",
           rules::Severity::kError,
           "The ranks of a group do not make the same collective",
           "At the same place in the order of a group's collectives the ranks called another "
           "operation, another type, another number of values, or another root. The strict "
           "majority is taken to be right; of a tie both sides are told. It need not hang: sizes "
           "that differ and yet return give wrong results silently.",
           "let all ranks of the group make the same calls in the same order, with tensors of one "
           "type and size; pad what is uneven, or use the calls for objects or uneven splits",
           {}},
          &make_watch<CollectiveMismatch>};
}

}  // namespace paramedic::cluster
