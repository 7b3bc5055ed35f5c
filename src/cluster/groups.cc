#include "cluster/groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace paramedic::cluster {
namespace {

constexpr size_t kCallsMax = 2'000;        // of a rank in a group; older ones are forgotten
constexpr size_t kGroupsMax = 4'096;       // what is called in more of them is not followed
constexpr size_t kSignaturesMax = 65'536;  // further ones fit to every other
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

Call call_of(const store::CollectiveRow& row, uint32_t signature) {
  Call call;
  call.signature = signature;
  call.told_sequence = row.sequence;
  if (row.where != nullptr) call.where = *row.where;
  call.step = row.origin.step;
  call.asynchronous = row.asynchronous;
  call.entered_ns = row.entered_ns;
  call.left_ns = row.left_ns;
  return call;
}

void append(Track& track, Call call) {
  track.calls.push_back(std::move(call));
  while (track.calls.size() > kCallsMax) {
    track.calls.pop_front();
    ++track.first;
  }
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
  const std::string key = fmt::format("{}/{}", row.group->name, fmt::join(row.group->ranks, ","));
  if (!groups_.contains(key) && groups_.size() >= kGroupsMax) return;
  Group& group = groups_[key];
  if (group.name.empty()) {
    group.name = row.group->name;
    group.description = row.group->description;
    group.ranks = row.group->ranks;
  }
  Track& track = group.tracks[row.origin.rank];
  if (track.ring_id != row.origin.ring_id) track = Track{};
  track.ring_id = row.origin.ring_id;
  if (row.sequence >= track.next_sequence) {
    enter(track, row);
  } else {
    leave(track, row);
  }
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
    append(track, call_of(row, intern(row)));
  } else if (row.left_ns == 0) {
    track.transfers[row.sequence] = call_of(row, intern(row));
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
  for (auto& [key, group] : groups_) group.tracks.erase(rank);
}

const Group* Groups::find(const std::string& name, int32_t rank) const {
  for (const auto& [key, group] : groups_) {
    const bool has_rank = std::binary_search(group.ranks.begin(), group.ranks.end(), rank);
    if (group.name == name && has_rank) return &group;
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
