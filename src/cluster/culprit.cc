#include "cluster/culprit.h"

#include <algorithm>
#include <set>

namespace paramedic::cluster {
namespace {

// Of a job so tangled that more ranks than this block a call alone, none is named.
constexpr size_t kCandidatesMax = 64;
// Fewer peers than this are no majority to be unlike.
constexpr size_t kPeersMin = 3;

class Circle {
 public:
  explicit Circle(const std::vector<BlockedCall>& calls) : calls_(calls) {
    for (size_t i = 0; i < calls.size(); ++i) {
      for (const int32_t rank : calls[i].blockers) blocked_by_[rank].push_back(i);
      waiters_.insert(calls[i].waiters.begin(), calls[i].waiters.end());
    }
  }

  [[nodiscard]] bool frees_all(int32_t rank) const {
    std::vector<size_t> missing;
    for (const BlockedCall& call : calls_) missing.push_back(call.blockers.size());
    std::set<int32_t> free{rank};
    std::vector<int32_t> to_come{rank};
    while (!to_come.empty()) {
      const int32_t comes = to_come.back();
      to_come.pop_back();
      const auto blocked = blocked_by_.find(comes);
      if (blocked == blocked_by_.end()) continue;
      for (const size_t i : blocked->second) {
        if (--missing[i] > 0) continue;
        for (const int32_t waiter : calls_[i].waiters) {
          if (free.insert(waiter).second) to_come.push_back(waiter);
        }
      }
    }
    return std::includes(free.begin(), free.end(), waiters_.begin(), waiters_.end());
  }

 private:
  const std::vector<BlockedCall>& calls_;
  std::map<int32_t, std::vector<size_t>> blocked_by_;
  std::set<int32_t> waiters_;
};

// How many collectives most ranks have entered in their groups of one kind; nothing when there is
// no majority.
std::optional<std::multiset<int64_t>> usual_counts(
    const std::map<int32_t, std::multiset<int64_t>>& counts) {
  std::map<std::multiset<int64_t>, size_t> votes;
  for (const auto& [rank, count] : counts) ++votes[count];
  for (const auto& [count, ranks] : votes) {
    if (counts.size() > kPeersMin && ranks * 2 > counts.size()) return count;
  }
  return std::nullopt;
}

}  // namespace

std::vector<int32_t> could_free_all(const std::vector<BlockedCall>& calls) {
  std::set<int32_t> alone;
  for (const BlockedCall& call : calls) {
    if (call.blockers.size() == 1) alone.insert(call.blockers.front());
  }
  if (alone.size() > kCandidatesMax) return {};
  const Circle circle(calls);
  std::vector<int32_t> found;
  for (const int32_t rank : alone) {
    if (circle.frees_all(rank)) found.push_back(rank);
  }
  return found;
}

std::optional<int32_t> unlike_its_peers(const CallCounts& kinds,
                                        const std::vector<int32_t>& candidates) {
  std::set<int32_t> unlike;
  for (const auto& [kind, counts] : kinds) {
    const auto usual = usual_counts(counts);
    if (!usual) continue;
    for (const int32_t rank : candidates) {
      const auto known = counts.find(rank);
      if (known != counts.end() && known->second != *usual) unlike.insert(rank);
    }
  }
  if (unlike.size() != 1) return std::nullopt;
  return *unlike.begin();
}

std::optional<int32_t> unlike_its_peers(const Groups& groups,
                                        const std::vector<int32_t>& candidates) {
  CallCounts kinds;
  for (const auto& [key, group] : groups.all()) {
    for (const auto& [rank, track] : group.tracks) {
      if (!track.is_uncertain) {
        kinds[{group.description, group.ranks.size()}][rank].insert(track.entered());
      }
    }
  }
  return unlike_its_peers(kinds, candidates);
}

}  // namespace paramedic::cluster
