#include "cluster/call_graph.h"

#include <algorithm>
#include <tuple>

namespace paramedic::cluster {
namespace {

class Builder {
 public:
  explicit Builder(const CallBook& book) : book_(book) {
    for (size_t i = 0; i < book.groups().size(); ++i) add_group(i);
  }

  std::vector<OpenCall> take_calls() { return std::move(calls_); }
  [[nodiscard]] const std::map<int32_t, std::vector<size_t>>& waits() const { return waits_; }

 private:
  // The number of the call in which the rank stands; entered() when in none. Where somebody has
  // not come to a call that needs all, nobody can have returned from it but with an error.
  [[nodiscard]] int64_t standing_in(const BookedCalls& booked, int64_t least) const {
    const RankCalls& calls = booked.calls;
    if (least < calls.first || least >= calls.entered() || least >= calls.left) return calls.left;
    const uint32_t signature = calls.signatures[static_cast<size_t>(least - calls.first)];
    return book_.needs_all(signature) ? least : calls.left;
  }

  void add_group(size_t index) {
    const BookedGroup& group = book_.groups()[index];
    int64_t least = INT64_MAX;
    for (const auto& [rank, booked] : group.ranks) {
      if (booked.is_known) least = std::min(least, booked.calls.entered());
    }
    std::map<int64_t, size_t> by_number;
    for (const auto& [rank, booked] : group.ranks) {
      add_transfers(index, rank, booked);
      if (!booked.is_known) continue;
      const int64_t number = standing_in(booked, least);
      if (number >= booked.calls.entered()) continue;
      const auto [known, is_new] = by_number.try_emplace(number, calls_.size());
      if (is_new) start(index, number, booked);
      OpenCall& call = calls_[known->second];
      call.waiters.push_back(rank);
      waits_[rank].push_back(known->second);
      const int64_t since_ns = number == booked.calls.left ? booked.open_since_ns : 0;
      if (since_ns > 0 && (call.since_ns == 0 || since_ns < call.since_ns)) {
        call.since_ns = since_ns;
      }
    }
    for (const auto& [number, i] : by_number) find_missing(group, calls_[i]);
  }

  void start(size_t group, int64_t number, const BookedCalls& booked) {
    OpenCall& call = calls_.emplace_back();
    call.group = group;
    call.number = number;
    const auto at = static_cast<size_t>(number - booked.calls.first);
    call.signature = booked.calls.signatures[at];
    call.site = booked.sites[at];
  }

  void find_missing(const BookedGroup& group, OpenCall& call) const {
    for (const auto& [rank, booked] : group.ranks) {
      if (!booked.is_known) {
        call.unknown.push_back(rank);
      } else if (booked.calls.entered() <= call.number) {
        call.missing.push_back(rank);
      }
    }
    for (const int32_t rank : group.members) {
      if (!group.ranks.contains(rank)) call.unknown.push_back(rank);
    }
    std::sort(call.unknown.begin(), call.unknown.end());
  }

  // A transfer is a matter of two ranks: each stands alone.
  void add_transfers(size_t index, int32_t rank, const BookedCalls& booked) {
    const BookedGroup& group = book_.groups()[index];
    for (const OpenTransfer& transfer : booked.transfers) {
      if (transfer.peer == rank) continue;
      OpenCall call;
      call.group = index;
      call.is_transfer = true;
      call.waiters = {rank};
      call.since_ns = transfer.since_ns;
      call.signature = transfer.signature;
      call.site = transfer.site;
      const auto peer = group.ranks.find(transfer.peer);
      if (peer == group.ranks.end()) {
        call.unknown = {transfer.peer};
      } else if (!has_other_end(peer->second, rank, transfer.is_send)) {
        call.missing = {transfer.peer};
      }
      waits_[rank].push_back(calls_.size());
      calls_.push_back(std::move(call));
      break;  // the first one is what it waits in
    }
  }

  static bool has_other_end(const BookedCalls& peer, int32_t rank, bool is_send) {
    return std::any_of(peer.transfers.begin(), peer.transfers.end(), [&](const OpenTransfer& one) {
      return one.peer == rank && one.is_send != is_send;
    });
  }

  const CallBook& book_;
  std::vector<OpenCall> calls_;
  std::map<int32_t, std::vector<size_t>> waits_;  // by rank: the calls in which it stands
};

// All to which ways lead from a call.
struct Reach {
  std::set<int32_t> ends;
  std::set<int32_t> unknown;
  std::vector<size_t> inside;
  bool is_consequence = false;
};

class Walk {
 public:
  Walk(const CallGraph& graph, const std::map<int32_t, std::vector<size_t>>& waits,
       const std::map<size_t, NumberRange>& parted)
      : graph_(graph), waits_(waits), parted_(parted) {}

  [[nodiscard]] Reach from(size_t start) const {
    Reach reach;
    std::vector<bool> seen(graph_.calls.size(), false);
    std::vector<size_t> to_visit{start};
    seen[start] = true;
    while (!to_visit.empty()) {
      const size_t at = to_visit.back();
      to_visit.pop_back();
      const OpenCall& call = graph_.calls[at];
      reach.is_consequence = reach.is_consequence || follows_from_parting(call);
      if (call.missing.empty()) {
        if (call.unknown.empty()) reach.inside.push_back(at);
        reach.unknown.insert(call.unknown.begin(), call.unknown.end());
      }
      for (const int32_t rank : call.missing) {
        const auto waits = waits_.find(rank);
        if (waits == waits_.end()) reach.ends.insert(rank);
        if (waits == waits_.end()) continue;
        for (const size_t next : waits->second) {
          if (!seen[next]) to_visit.push_back(next);
          seen[next] = true;
        }
      }
    }
    std::sort(reach.inside.begin(), reach.inside.end());
    return reach;
  }

 private:
  [[nodiscard]] bool follows_from_parting(const OpenCall& call) const {
    const auto parted = parted_.find(call.group);
    return parted != parted_.end() && !call.is_transfer && call.number >= parted->second.first &&
           call.number <= parted->second.last;
  }

  const CallGraph& graph_;
  const std::map<int32_t, std::vector<size_t>>& waits_;
  const std::map<size_t, NumberRange>& parted_;
};

// Whether a way ends at a call of the knot itself, and not only behind those of another one.
bool is_first_cause(const CallGraph& graph, const Knot& knot) {
  if (!knot.inside.empty()) {
    return std::any_of(knot.calls.begin(), knot.calls.end(), [&](size_t call) {
      return std::binary_search(knot.inside.begin(), knot.inside.end(), call);
    });
  }
  const bool is_circle = knot.ends.empty() && knot.unknown.empty();
  return is_circle || std::any_of(knot.calls.begin(), knot.calls.end(), [&](size_t i) {
           const OpenCall& call = graph.calls[i];
           if (knot.ends.empty()) return call.missing.empty() && !call.unknown.empty();
           return std::any_of(call.missing.begin(), call.missing.end(),
                              [&](int32_t rank) { return knot.ends.contains(rank); });
         });
}

}  // namespace

CallGraph open_calls(const CallBook& book, const std::map<size_t, NumberRange>& parted) {
  Builder builder(book);
  CallGraph graph;
  graph.calls = builder.take_calls();
  const Walk walk(graph, builder.waits(), parted);
  using Key = std::tuple<std::set<int32_t>, std::set<int32_t>, std::vector<size_t>>;
  std::map<Key, std::vector<size_t>> knots;
  for (size_t i = 0; i < graph.calls.size(); ++i) {
    Reach reach = walk.from(i);
    if (reach.is_consequence) continue;
    // What is known for certain decides.
    if (!reach.ends.empty()) reach.unknown.clear();
    if (!reach.ends.empty() || !reach.unknown.empty()) reach.inside.clear();
    knots[{std::move(reach.ends), std::move(reach.unknown), std::move(reach.inside)}].push_back(i);
  }
  for (auto& [key, calls] : knots) {
    std::stable_sort(calls.begin(), calls.end(), [&](size_t a, size_t b) {
      return graph.calls[a].waiters.size() > graph.calls[b].waiters.size();
    });
    auto [ends, unknown, inside] = key;
    Knot knot{std::move(calls), std::move(ends), std::move(unknown), std::move(inside)};
    if (is_first_cause(graph, knot)) graph.knots.push_back(std::move(knot));
  }
  return graph;
}

}  // namespace paramedic::cluster
