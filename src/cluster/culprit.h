#pragma once
// Who is to blame for a circle of ranks that wait for each other: the one whose coming would set
// all the others free, and, where that fits several, the one that has not called what its like
// have called. Pure functions.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cluster/groups.h"

namespace paramedic::cluster {

// A call in which ranks are blocked.
struct BlockedCall {
  std::vector<int32_t> waiters;
  std::vector<int32_t> blockers;  // members that have not come to it
};

// The ranks of which one alone, if it came to every call in which it is waited for, would let all
// others go on, whatever call it is in itself; ascending. Whoever is free again is taken to come
// wherever it is waited for. Cost: the members of all calls for each rank that alone blocks one.
std::vector<int32_t> could_free_all(const std::vector<BlockedCall>& calls);

// How many calls each rank has entered in its groups of a kind (description and size). It may be in
// several, as in the pairs of a ring, of which none has its like on another rank: they count as a
// set.
using CallCounts =
    std::map<std::pair<std::string, size_t>, std::map<int32_t, std::multiset<int64_t>>>;

// The one of `candidates` that has made another number of calls in one of its groups than most
// ranks have in theirs of the same kind (description and size); nothing unless that is one.
std::optional<int32_t> unlike_its_peers(const CallCounts& kinds,
                                        const std::vector<int32_t>& candidates);
std::optional<int32_t> unlike_its_peers(const Groups& groups,
                                        const std::vector<int32_t>& candidates);

}  // namespace paramedic::cluster
