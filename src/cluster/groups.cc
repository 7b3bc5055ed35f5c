#include "cluster/groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace paramedic::cluster {
namespace {

constexpr size_t kCallsMax = 2'000;         // of a rank in a group; older ones are forgotten
constexpr size_t kCallsTotalMax = 4 << 20;  // of all ranks in all groups, 240 MB
constexpr size_t kCallsMin = 300;           // of a rank in a group, however many there are
constexpr size_t kToldMax = 65'536;         // lists of members that are known by their address
constexpr size_t kSitesMax = 100'000;       // lines; further ones are not known
constexpr size_t kGroupsMax = 4'096;        // what is called in more of them is not followed
constexpr size_t kSignaturesMax = 65'536;   // further ones fit to every other
// More lost rows in a row than this are no gap but another count.
constexpr int64_t kGapMax = static_cast<int64_t>(kCallsMax);
constexpr size_t kOpenTransfersMax = 1'000;
// Calls before those that are asked for: enough to recognise where in its round a rank stands.
constexpr int64_t kContextCalls = 256;

int64_t count_of(const std::vector<int64_t>& sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return count;
}

std::string key_of(const store::CollectiveRow& row) {
  std::string key = fmt::format("{}/{}", row.operation, row.peer);
  // A tensor may be given in another shape: the number of its values is what counts.
  if (!may_differ_in_size(row.operation)) {
    key += fmt::format("/{}/{}/{}", static_cast<int>(row.dtype), count_of(row.sizes), row.bytes);
  }
  return key;
}

Call call_of(const store::CollectiveRow& row, uint32_t signature, const store::CallSite* where) {
  Call call;
  call.signature = signature;
  call.told_sequence = row.sequence;
  call.where = where;
  call.step = row.origin.step;
  call.asynchronous = row.asynchronous;
  call.entered_ns = row.entered_ns;
  call.left_ns = row.left_ns;
  return call;
}

}  // namespace

std::string describe(const Signature& signature) {
  std::string text = signature.operation.empty() ? "an unknown call" : signature.operation;
  const bool has_tensor = signature.bytes > 0 || !signature.sizes.empty();
  if (!signature.operation.empty() && has_tensor) {
    text += fmt::format(" of {} [{}]", stats::dtype_name(signature.dtype),
                        fmt::join(signature.sizes, ", "));
  }
  if (signature.peer >= 0) text += fmt::format(" with rank {}", signature.peer);
  return text;
}

bool may_differ_in_size(std::string_view operation) {
  // Only one rank gives any, or each gives what it has. Objects are pickled and have no size of
  // their own.
  constexpr std::array<std::string_view, 3> kUneven{"object", "all_to_all", "barrier"};
  return operation.starts_with("scatter") || operation.starts_with("gather") ||
         std::any_of(kUneven.begin(), kUneven.end(),
                     [&](std::string_view word) { return operation.find(word) != operation.npos; });
}

bool is_transfer(const std::string& operation) {
  return operation.find("send") != std::string::npos || operation.find("recv") != std::string::npos;
}

const Call* Track::inside() const {
  const Call* open = nullptr;
  for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
    if (call->asynchronous) continue;
    if (call->left_ns == 0 && call->signature != kUnknownSignature) open = &*call;
    break;  // a rank is inside of one call at a time
  }
  for (const auto& [sequence, transfer] : transfers) {
    if (transfer.asynchronous) continue;
    if (open == nullptr || transfer.entered_ns > open->entered_ns) open = &transfer;
  }
  return open;
}

const Call* Track::at(int64_t number) const {
  if (number < first || number >= entered()) return nullptr;
  return &calls[static_cast<size_t>(number - first)];
}

std::vector<RankCalls> Group::calls(int64_t from) const {
  std::vector<RankCalls> all;
  for (const auto& [rank, track] : tracks) {
    if (track.is_uncertain) continue;
    RankCalls& calls = all.emplace_back();
    calls.rank = rank;
    calls.first = std::clamp(from - kContextCalls, track.first, track.entered());
    calls.left = track.entered();
    for (int64_t number = calls.first; number < track.entered(); ++number) {
      const Call& call = *track.at(number);
      if (call.left_ns == 0 && call.told_sequence >= 0) calls.left = std::min(calls.left, number);
      calls.signatures.push_back(call.signature);
    }
  }
  return all;
}

void Groups::take(const store::CollectiveRow& row) {
  ++rows_;
  Group* group = group_of(*row.group);
  if (group == nullptr) return;
  Track& track = track_of(*group, row.origin);
  if (row.sequence >= track.next_sequence) {
    enter(track, row);
  } else {
    leave(track, row);
  }
}

// The list of members is not compared with every row: of a job of 10,000 ranks that alone would
// keep a core busy. Rows whose lists are one object are of one group.
Group* Groups::group_of(const store::GroupInfo& told) {
  const auto known = told_.find(told.ranks.identity());
  if (known != told_.end()) {
    for (Group* group : known->second.groups) {
      if (group->name == told.name) return group;
    }
  }
  const std::string key = fmt::format("{}/{}", told.name, fmt::join(told.ranks.list(), ","));
  if (!groups_.contains(key) && groups_.size() >= kGroupsMax) return nullptr;
  Group& group = groups_[key];
  if (group.name.empty()) {
    group.name = told.name;
    group.description = told.description;
    group.ranks = told.ranks.list();
  }
  if (known != told_.end() || told_.size() < kToldMax) {
    Told& kept = told_[told.ranks.identity()];
    kept.members = told.ranks;
    kept.groups.push_back(&group);
  }
  return &group;
}

Track& Groups::track_of(Group& group, const store::Origin& origin) {
  const auto [known, is_new] = group.tracks.try_emplace(origin.rank);
  if (is_new) ++tracks_;
  Track& track = known->second;
  if (track.ring_id != origin.ring_id) track = Track{};
  track.ring_id = origin.ring_id;
  return track;
}

size_t Groups::calls_max() const {
  return std::clamp(kCallsTotalMax / std::max<size_t>(tracks_, 1), kCallsMin, kCallsMax);
}

void Groups::append(Track& track, Call call) const {
  track.calls.push_back(call);
  const size_t calls = calls_max();
  while (track.calls.size() > calls) {
    track.calls.pop_front();
    ++track.first;
  }
}

const store::CallSite* Groups::site(const store::CollectiveRow& row) {
  if (row.where == nullptr) return &kNoSite;
  const auto known = sites_.find(*row.where);
  if (known != sites_.end()) return &*known;
  if (sites_.size() >= kSitesMax) return &kNoSite;
  return &*sites_.insert(*row.where).first;
}

void Groups::enter(Track& track, const store::CollectiveRow& row) {
  const int64_t lost = row.sequence - track.next_sequence;
  const bool is_first = track.next_sequence == 0;
  track.next_sequence = row.sequence + 1;
  const bool transfers = is_transfer(row.operation);
  track.has_transfers = track.has_transfers || transfers;
  if (lost > 0 && (track.has_transfers || lost > kGapMax)) track.is_uncertain = true;
  if (lost > kGapMax && is_first) track.first = lost;
  for (int64_t i = 0; i < lost && !track.is_uncertain; ++i) append(track, Call{});
  if (!transfers) {
    append(track, call_of(row, intern(row), site(row)));
  } else if (row.left_ns == 0) {
    track.transfers[row.sequence] = call_of(row, intern(row), site(row));
    // Those that nobody ever waits for stay open.
    if (track.transfers.size() > kOpenTransfersMax) track.transfers.erase(track.transfers.begin());
  }
}

void Groups::leave(Track& track, const store::CollectiveRow& row) {
  if (row.left_ns == 0) return;
  if (track.transfers.erase(row.sequence) > 0) return;
  for (auto call = track.calls.rbegin(); call != track.calls.rend(); ++call) {
    if (call->told_sequence > row.sequence || call->told_sequence < 0) continue;
    if (call->told_sequence != row.sequence) return;
    call->left_ns = row.left_ns;
    int64_t& longest_ns = longest_ns_[call->signature];
    longest_ns = std::max(longest_ns, row.left_ns - call->entered_ns);
    return;
  }
}

void Groups::forget(int32_t rank) {
  for (auto& [key, group] : groups_) tracks_ -= group.tracks.erase(rank);
}

const Group* Groups::find(const std::string& name, int32_t rank) const {
  for (const auto& [key, group] : groups_) {
    if (group.name != name) continue;
    if (std::binary_search(group.ranks.begin(), group.ranks.end(), rank)) return &group;
  }
  return nullptr;
}

int64_t Groups::longest_ns(uint32_t signature) const {
  const auto known = longest_ns_.find(signature);
  return known == longest_ns_.end() ? 0 : known->second;
}

uint32_t Groups::intern(const store::CollectiveRow& row) {
  std::string key = key_of(row);
  const auto known = signature_ids_.find(key);
  if (known != signature_ids_.end()) return known->second;
  if (signatures_.size() >= kSignaturesMax) return kUnknownSignature;
  const auto id = static_cast<uint32_t>(signatures_.size());
  signature_ids_.emplace(std::move(key), id);
  signatures_.push_back({row.operation, row.dtype, row.sizes, row.bytes, row.peer});
  return id;
}

}  // namespace paramedic::cluster
