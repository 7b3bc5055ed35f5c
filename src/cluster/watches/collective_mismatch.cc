// The ranks of a group do not make the same collective: another operation, type, size or root.

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "cluster/compare.h"
#include "cluster/mismatch.h"
#include "cluster/watch.h"

namespace paramedic::cluster {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
// Ranks that have not come to the call yet are waited for: they have votes too.
constexpr int64_t kVotesNs = 3 * kSecondNs;

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
    const Call& call = *group.tracks.at(mismatch.shown).at(divergence.number);
    if (call.step >= 0) mismatch.finding.step = call.step;
    mismatch.finding.evidence.emplace_back("rests on the calls seen in the processes");
    return std::move(mismatch.finding);
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
