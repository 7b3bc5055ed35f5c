#include "cluster/stall.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "cluster/culprit.h"
#include "cluster/standing.h"

namespace paramedic::cluster {
namespace {

// Shorter waits are the course of things.
constexpr int64_t kShortestNs = 1'000'000'000;
// Calls of a group that a job makes before it is under way; DDP makes some more by itself.
constexpr int64_t kStartCalls = 2;
constexpr int64_t kStartCallsOfFlight = 20;

// A call in which somebody is blocked. Ranks that disagree about the operation are in the same one.
struct Pending {
  std::vector<Waiter> waiters;
  std::vector<int32_t> blockers;  // members that have not come to it
};

using PendingKey = std::pair<std::string, int64_t>;

class Graph {
 public:
  explicit Graph(const Job& job) : job_(job) {
    for (const Waiter& waiter : waiters_of(job)) {
      const PendingKey key = key_of(waiter);
      calls_[key].waiters.push_back(waiter);
      waits_in_.emplace(waiter.rank, key);
    }
    for (auto& [key, pending] : calls_) pending.blockers = blockers_of(pending);
  }

  [[nodiscard]] const std::map<PendingKey, Pending>& calls() const { return calls_; }

  // The ranks at the ends of all ways from a call.
  [[nodiscard]] std::set<int32_t> ends_of(const PendingKey& start) const {
    std::set<int32_t> ends;
    std::set<PendingKey> seen{start};
    std::vector<PendingKey> to_visit{start};
    while (!to_visit.empty()) {
      const PendingKey key = to_visit.back();
      to_visit.pop_back();
      for (const int32_t rank : calls_.at(key).blockers) {
        const auto waits = waits_in_.find(rank);
        if (waits == waits_in_.end()) {
          ends.insert(rank);
        } else if (seen.insert(waits->second).second) {
          to_visit.push_back(waits->second);
        }
      }
    }
    return ends;
  }

 private:
  // In a group of which a call is known from the flight recorder alone (DDP makes it below Python),
  // the recorder's count is the one that all waiters have in common.
  [[nodiscard]] std::vector<Waiter> waiters_of(const Job& job) const {
    std::vector<Waiter> waiters;
    std::set<std::string> in_flight;
    for (const auto& [rank, state] : job.ranks().all()) {
      auto waiter = waiter_of(job, rank);
      if (!waiter) continue;
      if (waiter->from_flight) in_flight.insert(waiter->group);
      waiters.push_back(std::move(*waiter));
    }
    for (Waiter& waiter : waiters) {
      if (waiter.from_flight || waiter.is_transfer || !in_flight.contains(waiter.group)) continue;
      const StallReport::Flight* flight = flight_of(waiter.rank, waiter.group);
      if (flight == nullptr || !flight->is_open()) continue;
      waiter.number = flight->last_enqueued;
      waiter.from_flight = true;
    }
    return waiters;
  }

  static PendingKey key_of(const Waiter& waiter) {
    // A transfer is a matter of two ranks: each stands alone.
    if (!waiter.is_transfer) return {waiter.group, waiter.number};
    return {waiter.group + "/transfer of " + std::to_string(waiter.rank), waiter.number};
  }

  [[nodiscard]] std::vector<int32_t> members_of(const Waiter& waiter) const {
    const Group* group = job_.groups().find(waiter.group, waiter.rank);
    if (group != nullptr && !group->ranks.empty()) return group->ranks;
    std::vector<int32_t> all;
    for (const auto& [rank, state] : job_.ranks().all()) all.push_back(rank);
    return all;
  }

  [[nodiscard]] std::vector<int32_t> blockers_of(const Pending& pending) const {
    const Waiter& first = pending.waiters.front();
    std::vector<int32_t> blockers;
    if (first.is_transfer && first.peer >= 0) {
      if (first.peer != first.rank) blockers.push_back(first.peer);
      return blockers;
    }
    for (const int32_t rank : members_of(first)) {
      if (first.is_transfer) {
        if (rank != first.rank) blockers.push_back(rank);
        continue;
      }
      if (!has_come_to(rank, first)) blockers.push_back(rank);
    }
    return blockers;
  }

  // Whether `rank` has entered the call of `waiter`, or has passed it.
  [[nodiscard]] bool has_come_to(int32_t rank, const Waiter& waiter) const {
    const auto waits = waits_in_.find(rank);
    if (waits != waits_in_.end() && waits->second == key_of(waiter)) return true;
    const StallReport::Flight* theirs = flight_of(rank, waiter.group);
    const StallReport::Flight* ours = flight_of(waiter.rank, waiter.group);
    // A call that the recorder does not know (monitored_barrier) leaves none open.
    if (theirs != nullptr && ours != nullptr && ours->is_open()) {
      return theirs->last_enqueued >= ours->last_enqueued;
    }
    if (waiter.from_flight) return false;
    const Group* group = job_.groups().find(waiter.group, waiter.rank);
    if (group == nullptr) return false;
    const auto track = group->tracks.find(rank);
    return track != group->tracks.end() &&
           (track->second.is_uncertain || track->second.entered() > waiter.number);
  }

  // What the flight recorder of a rank that stalls has seen in the group; null when nothing.
  [[nodiscard]] const StallReport::Flight* flight_of(int32_t rank, const std::string& group) const {
    const Rank* state = job_.ranks().find(rank);
    if (state == nullptr || state->stalled() == nullptr) return nullptr;
    const auto& flights = state->stalled()->flight;
    const auto flight = flights.find(group);
    return flight == flights.end() || flight->second.last_enqueued < 0 ? nullptr : &flight->second;
  }

  const Job& job_;
  std::map<PendingKey, Pending> calls_;
  std::map<int32_t, PendingKey> waits_in_;
};

bool all_inside_one_call(const std::vector<Waiter>& waiters) {
  return std::all_of(waiters.begin(), waiters.end(), [&](const Waiter& waiter) {
    return waiter.group == waiters.front().group && waiter.number == waiters.front().number &&
           waiter.operation == waiters.front().operation;
  });
}

// Who takes from any rank misses none of them: as long as one of those that could give is at work,
// it has nothing to do.
bool has_nothing_to_do(const Job& job, const Pending& pending, const std::set<int32_t>& ends) {
  const Waiter& first = pending.waiters.front();
  return first.is_transfer && first.peer < 0 &&
         std::any_of(
             ends.begin(), ends.end(),
             [&](int32_t rank) {
               const Rank* state = job.ranks().find(rank);
               return state == nullptr || !(state->is_gone() || state->exiting);
             });
}

bool takes_from_any(const Stall& stall, int32_t rank) {
  return std::any_of(stall.waiters.begin(), stall.waiters.end(), [&](const Waiter& waiter) {
    return waiter.rank == rank && waiter.is_transfer && waiter.peer < 0;
  });
}

bool is_start(const Job& job, const Stall& stall) {
  for (const Waiter& waiter : stall.waiters) {
    const Rank* state = job.ranks().find(waiter.rank);
    const int64_t start_calls = waiter.from_flight ? kStartCallsOfFlight : kStartCalls;
    if (waiter.number >= start_calls || (state != nullptr && state->process.last_step > 0)) {
      return false;
    }
  }
  return true;
}

// Since when it lasts: with somebody to wait for since the first one waits, and not before the
// other began with what it does; else since the last one came.
int64_t begin_of(const Stall& stall) {
  int64_t first_ns = INT64_MAX;
  int64_t last_ns = 0;
  for (const Waiter& waiter : stall.waiters) {
    first_ns = std::min(first_ns, waiter.since_ns);
    last_ns = std::max(last_ns, waiter.since_ns);
  }
  if (stall.suspects.empty()) return last_ns;
  for (const Suspect& suspect : stall.suspects) {
    if (suspect.doing == stall.doing) first_ns = std::max(first_ns, suspect.since_ns);
  }
  return first_ns;
}

void complete(const Job& job, Stall& stall) {
  std::sort(stall.waiters.begin(), stall.waiters.end(),
            [](const Waiter& a, const Waiter& b) { return a.rank < b.rank; });
  stall.is_start = is_start(job, stall);
  if (stall.suspects.empty()) {
    stall.doing = all_inside_one_call(stall.waiters) ? Doing::kInside : Doing::kDeadlock;
  } else {
    stall.doing = std::max_element(stall.suspects.begin(), stall.suspects.end(),
                                   [&](const Suspect& a, const Suspect& b) {
                                     return judge({a.doing, 0, stall.is_start, 0}).patience_s <
                                            judge({b.doing, 0, stall.is_start, 0}).patience_s;
                                   })
                      ->doing;
  }
  stall.since_ns = begin_of(stall);
}

std::optional<int32_t> culprit_of(const Job& job, const std::vector<BlockedCall>& circle) {
  const std::vector<int32_t> candidates = could_free_all(circle);
  if (candidates.size() == 1) return candidates.front();
  return unlike_its_peers(job.groups(), candidates);
}

}  // namespace

std::vector<Stall> find_stalls(const Job& job) {
  const Graph graph(job);
  std::map<std::set<int32_t>, Stall> by_ends;
  std::vector<BlockedCall> circle;  // the calls from which no way leads to a rank that is outside
  for (const auto& [key, pending] : graph.calls()) {
    const std::set<int32_t> ends = graph.ends_of(key);
    if (has_nothing_to_do(job, pending, ends)) continue;
    Stall& stall = by_ends[ends];
    stall.waiters.insert(stall.waiters.end(), pending.waiters.begin(), pending.waiters.end());
    if (!ends.empty()) continue;
    BlockedCall& call = circle.emplace_back();
    call.blockers = pending.blockers;
    for (const Waiter& waiter : pending.waiters) call.waiters.push_back(waiter.rank);
  }
  std::vector<Stall> stalls;
  for (auto& [ends, stall] : by_ends) {
    for (const int32_t rank : ends) {
      // Of ranks on other machines nothing is known here, and nothing is said.
      const Rank* state = job.ranks().find(rank);
      if (state != nullptr && state->is_known) stall.suspects.push_back(suspect_of(job, rank));
    }
    if (stall.suspects.empty() && !ends.empty()) continue;
    complete(job, stall);
    if (stall.doing == Doing::kDeadlock) stall.culprit = culprit_of(job, circle);
    // That nobody gives it anything is no fault of the one that takes from any.
    if (stall.culprit && takes_from_any(stall, *stall.culprit)) stall.culprit.reset();
    if (job.time_ns() - stall.since_ns >= kShortestNs) stalls.push_back(std::move(stall));
  }
  return stalls;
}

}  // namespace paramedic::cluster
