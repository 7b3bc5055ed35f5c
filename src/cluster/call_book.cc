#include "cluster/call_book.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include "cluster/standing.h"

namespace paramedic::cluster {
namespace {

// More missing numbers in a row than this are no gap but another count.
constexpr int64_t kGapMax = 4'096;
constexpr int64_t kNumberMax = 1LL << 53;         // what is told as more is no number of a call
constexpr size_t kOpenTransfersMax = 1'000;       // of a rank in a group
constexpr size_t kBookSignaturesMax = 1'000'000;  // further ones fit to every other
constexpr size_t kBookSitesMax = 1'000'000;       // further ones are not known
constexpr size_t kTextMax = 160;                  // bytes of a description

bool needs_all_ranks(std::string_view operation) {
  constexpr std::array<std::string_view, 3> kFirst{"all", "barrier", "reduce_scatter"};
  while (operation.starts_with('_')) operation.remove_prefix(1);
  return std::any_of(kFirst.begin(), kFirst.end(),
                     [&](std::string_view word) { return operation.starts_with(word); });
}

// The recorders' names of types are PyTorch's of C++.
std::string dtype_of(const std::string& dtypes) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kNames{
      {{"Float", "float32"},
       {"Double", "float64"},
       {"Half", "float16"},
       {"BFloat16", "bfloat16"},
       {"Long", "int64"},
       {"Int", "int32"},
       {"Short", "int16"},
       {"Char", "int8"},
       {"Byte", "uint8"},
       {"Bool", "bool"}}};
  std::string first = dtypes.substr(0, dtypes.find(' '));
  for (const auto& [theirs, ours] : kNames) {
    if (first == theirs) return std::string(ours);
  }
  return first;
}

std::string shortened(std::string text) {
  if (text.size() > kTextMax) text = text.substr(0, kTextMax) + "…";
  return text;
}

std::string text_of(const FlightCall& call) {
  std::string text = call.operation.empty() ? "an unknown call" : call.operation;
  if (call.input_sizes.empty()) return shortened(std::move(text));
  text += fmt::format(" of {} [{}]", dtype_of(call.dtypes), fmt::join(call.input_sizes[0], ", "));
  const size_t more = call.input_sizes.size() - 1;
  if (more > 0) text += fmt::format(" and {} more tensor{}", more, more == 1 ? "" : "s");
  return shortened(std::move(text));
}

// Calls of equal keys fit together. A tensor may be given in another shape: the number of its
// values is what counts.
std::string key_of(const FlightCall& call) {
  std::string key = call.operation;
  if (may_differ_in_size(call.operation)) return key;
  key += '/' + call.dtypes;
  for (const auto& sizes : call.input_sizes) {
    uint64_t count = 1;  // wraps for sizes that nobody has
    for (const int64_t size : sizes) count *= static_cast<uint64_t>(size);
    key += fmt::format("/{}", count);
  }
  return key;
}

// "send 0->1", "recv 1<-0": numbers within the group.
std::optional<OpenTransfer> transfer_of(const std::string& operation) {
  OpenTransfer transfer;
  transfer.is_send = operation.starts_with("send");
  const size_t arrow = operation.find(transfer.is_send ? "->" : "<-");
  if (arrow == std::string::npos) return std::nullopt;
  const char* begin = operation.data() + arrow + 2;
  const auto [end, error] =
      std::from_chars(begin, operation.data() + operation.size(), transfer.peer);
  if (error != std::errc() || transfer.peer < 0) return std::nullopt;
  return transfer;
}

// Until all calls are told: none of them is open.
constexpr int64_t kNoneOpen = INT64_MAX;

}  // namespace

BookedGroup& CallBook::group_of(const FlightGroup& group) {
  std::string key = group.name + '/';
  for (const int32_t rank : group.ranks) {
    key.append(reinterpret_cast<const char*>(&rank), sizeof rank);
  }
  const auto [known, is_new] = group_ids_.try_emplace(std::move(key), groups_.size());
  if (is_new) {
    BookedGroup& made = groups_.emplace_back();
    made.name = group.name;
    made.members = group.ranks;
  }
  BookedGroup& booked = groups_[known->second];
  const bool is_name = !group.description.empty() && group.description != "undefined";
  if (booked.description.empty() && is_name) booked.description = group.description;
  return booked;
}

uint32_t CallBook::intern(const std::string& key, const std::string& text, bool needs_all) {
  const auto known = signature_ids_.find(key);
  if (known != signature_ids_.end()) return known->second;
  if (signatures_.size() >= kBookSignaturesMax) return kUnknownSignature;
  const auto id = static_cast<uint32_t>(signatures_.size());
  signature_ids_.emplace(key, id);
  signatures_.push_back({text, needs_all});
  return id;
}

uint32_t CallBook::intern_call(const FlightCall& call) {
  return intern(key_of(call), text_of(call), needs_all_ranks(call.operation));
}

uint32_t CallBook::intern_site(const store::CallSite& site) {
  if (site.line <= 0) return 0;
  const auto known = site_ids_.find({site.file, site.line});
  if (known != site_ids_.end()) return known->second;
  if (sites_.size() >= kBookSitesMax) return 0;
  const auto id = static_cast<uint32_t>(sites_.size());
  site_ids_.emplace(std::make_pair(site.file, site.line), id);
  sites_.push_back(site);
  return id;
}

// Calls that are made as one, under one number.
uint32_t CallBook::both(uint32_t first, uint32_t second) {
  const auto known = pairs_.find({first, second});
  if (known != pairs_.end()) return known->second;
  const std::string key = fmt::format("{}+{}", first, second);
  const bool needs_all = signatures_[first].needs_all || signatures_[second].needs_all;
  const uint32_t id =
      intern(key, shortened(signatures_[first].text + " + " + signatures_[second].text), needs_all);
  pairs_.emplace(std::make_pair(first, second), id);
  return id;
}

void CallBook::append(BookedCalls& booked, const FlightEntry& entry, uint32_t signature,
                      uint32_t site) {
  if (entry.sequence < 0 || entry.sequence > kNumberMax) return;
  RankCalls& calls = booked.calls;
  const int64_t gap = entry.sequence - calls.entered();
  if (!calls.signatures.empty() && gap == -1) {
    calls.signatures.back() = both(calls.signatures.back(), signature);
  } else {
    const bool goes_on = !calls.signatures.empty() && gap >= 0 && gap <= kGapMax &&
                         calls.signatures.size() + static_cast<size_t>(gap) < kDumpEntriesMax;
    if (!goes_on) {
      // The first one, or a group that was made anew under the same name.
      calls.first = entry.sequence;
      calls.left = kNoneOpen;
      calls.signatures.clear();
      booked.sites.clear();
    }
    calls.signatures.resize(goes_on ? calls.signatures.size() + static_cast<size_t>(gap) : 0,
                            kUnknownSignature);
    calls.signatures.push_back(signature);
    booked.sites.resize(calls.signatures.size() - 1, 0);
    booked.sites.push_back(site);
  }
  if (entry.completed || calls.left != kNoneOpen) return;
  calls.left = entry.sequence;
  booked.open_since_ns = entry.created_ns;
}

void CallBook::add_transfer(BookedGroup& group, int32_t rank, const FlightCall& call,
                            OpenTransfer made) {
  const auto told = transfer_of(call.operation);
  BookedCalls& booked = group.ranks[rank];
  if (!told || booked.transfers.size() >= kOpenTransfersMax) return;
  made.peer = told->peer;
  made.is_send = told->is_send;
  if (!group.members.empty()) {
    if (static_cast<size_t>(told->peer) >= group.members.size()) return;
    made.peer = group.members[static_cast<size_t>(told->peer)];
  }
  booked.transfers.push_back(made);
}

void CallBook::add_program(const FlightDump& dump, const std::vector<uint32_t>& signatures,
                           const std::vector<uint32_t>& sites) {
  if (dump.first_record < 0) return;
  BookedCalls& program = programs_.emplace_back();
  program.calls = {dump.rank, dump.first_record, {}, INT64_MAX};
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> known;  // by group and signature
  for (const FlightEntry& entry : dump.entries) {
    const uint32_t signature = signatures[entry.call];
    const auto [made, is_new] = known.try_emplace({entry.group, signature}, kUnknownSignature);
    if (is_new) {
      const FlightGroup& group = dump.groups[entry.group];
      const bool is_named = !group.description.empty() && group.description != "undefined";
      const std::string kind = is_named ? group.description : "a smaller group";
      made->second = intern(fmt::format("{}/{}/{}", kind, group.ranks.size(), signature),
                            fmt::format("{} in {}", signatures_[signature].text, kind), false);
    }
    if (!entry.completed)
      program.calls.left = std::min(program.calls.left, program.calls.entered());
    program.calls.signatures.push_back(made->second);
    program.sites.push_back(sites[entry.site]);
  }
}

void CallBook::add(const FlightDump& dump) {
  ranks_[dump.rank] = dump.written_ns;
  versions_[dump.version].push_back(dump.rank);
  if (dump.is_whole) whole_.insert(dump.rank);
  std::vector<uint32_t> signatures;
  for (const FlightCall& call : dump.calls) signatures.push_back(intern_call(call));
  std::vector<uint32_t> sites;
  for (const store::CallSite& site : dump.sites) sites.push_back(intern_site(site));
  add_program(dump, signatures, sites);
  std::vector<size_t> groups;
  for (const FlightGroup& group : dump.groups) {
    BookedGroup& booked = group_of(group);
    groups.push_back(static_cast<size_t>(&booked - groups_.data()));
    BookedCalls& mine = booked.ranks[dump.rank];
    mine.calls = {dump.rank, 0, {}, kNoneOpen};
    mine.is_known = dump.is_whole;
    // A dump without entries still says how far it is.
    const bool is_told = dump.entries.empty() && group.last_enqueued >= 0 &&
                         group.last_enqueued <= kNumberMax && group.last_completed >= -1;
    const int64_t open = is_told ? group.last_enqueued - group.last_completed : -1;
    if (open < 0 || open > kGapMax) continue;
    mine.is_known = true;
    mine.calls.first = group.last_completed + 1;
    mine.calls.signatures.resize(static_cast<size_t>(open), kUnknownSignature);
    mine.sites.resize(static_cast<size_t>(open), 0);
    if (open > 0) mine.calls.left = mine.calls.first;
  }
  for (const FlightEntry& entry : dump.entries) {
    BookedGroup& group = groups_[groups[entry.group]];
    const uint32_t signature = signatures[entry.call];
    const uint32_t site = sites[entry.site];
    if (!entry.point_to_point) {
      BookedCalls& mine = group.ranks[dump.rank];
      mine.is_known = true;
      append(mine, entry, signature, site);
      ++calls_;
    } else if (!entry.completed) {
      add_transfer(group, dump.rank, dump.calls[entry.call],
                   {0, false, signature, site, entry.created_ns});
    }
  }
  for (const size_t group : groups) {
    RankCalls& calls = groups_[group].ranks[dump.rank].calls;
    calls.left = std::min(calls.left, calls.entered());
  }
}

void CallBook::add_track(const Job& job, BookedGroup& group, int32_t rank, const Track& track) {
  BookedCalls& mine = group.ranks[rank];
  mine.calls = {rank, track.first, {}, track.entered()};
  mine.is_known = !track.is_uncertain;
  const auto signature_of = [&](uint32_t id) {
    if (id == kUnknownSignature) return kUnknownSignature;
    const Signature& signature = job.groups().signature(id);
    return intern(fmt::format("run/{}", id), shortened(describe(signature)),
                  needs_all_ranks(signature.operation));
  };
  const Call* inside = track.inside();
  for (const Call& call : track.calls) {
    if (&call == inside) mine.calls.left = mine.calls.entered();
    if (&call == inside) mine.open_since_ns = call.entered_ns;
    mine.calls.signatures.push_back(signature_of(call.signature));
    mine.sites.push_back(intern_site(*call.where));
    ++calls_;
  }
  for (const auto& [sequence, call] : track.transfers) {
    const Signature& signature = job.groups().signature(call.signature);
    if (call.asynchronous || signature.peer < 0) continue;
    const bool is_send = signature.operation.find("send") != std::string::npos;
    mine.transfers.push_back({signature.peer, is_send, signature_of(call.signature),
                              intern_site(*call.where), call.entered_ns});
  }
}

// What is called below Python is known by its frontier alone, and by that only while it stalls.
void CallBook::add_frontier(const Job& job, int32_t rank) {
  const Rank* state = job.ranks().find(rank);
  if (state == nullptr || state->stalled() == nullptr) return;
  const StallReport& report = *state->stalled();
  for (const auto& [name, flight] : report.flight) {
    const int64_t open = flight.last_enqueued - flight.last_completed;
    const bool is_told = flight.last_enqueued >= 0 && flight.last_completed >= -1 && open >= 0;
    // The two count differently: where Python's own calls are known, these are compared.
    if (!is_told || open > kGapMax || job.groups().find(name, rank) != nullptr) continue;
    BookedCalls& mine = group_of({name, "", {}, -1, -1}).ranks[rank];
    const uint32_t signature = flight.operation.empty()
                                   ? kUnknownSignature
                                   : intern("frontier/" + flight.operation, flight.operation, true);
    const uint32_t site = intern_site(own_line(report.stack).value_or(store::CallSite{}));
    mine.calls = {rank, flight.last_completed + 1, {}, flight.last_completed + 1};
    mine.calls.signatures.assign(static_cast<size_t>(open), signature);
    mine.sites.assign(static_cast<size_t>(open), site);
    mine.open_since_ns = report.since_ns;
    calls_ += static_cast<uint64_t>(open);
  }
}

void CallBook::add(const Job& job, const std::map<int32_t, int64_t>& ranks) {
  for (const auto& [rank, newest_ns] : ranks) {
    ranks_[rank] = newest_ns;
    whole_.insert(rank);
  }
  for (const auto& [key, group] : job.groups().all()) {
    BookedGroup& booked = group_of({group.name, group.description, group.ranks});
    for (const auto& [rank, track] : group.tracks) add_track(job, booked, rank, track);
  }
  // What was started asynchronously keeps a rank only where the rank says so.
  for (const auto& [rank, newest_ns] : ranks) {
    add_frontier(job, rank);
    const auto waiter = waiter_of(job, rank);
    if (!waiter || waiter->from_flight || waiter->is_transfer) continue;
    const Group* group = job.groups().find(waiter->group, rank);
    if (group == nullptr) continue;
    BookedCalls& mine = group_of({group->name, group->description, group->ranks}).ranks[rank];
    if (waiter->number >= mine.calls.left) continue;
    mine.calls.left = waiter->number;
    mine.open_since_ns = waiter->since_ns;
  }
}

// Gloo's recorder does not tell the members of its groups; other ranks' may, of the same name.
void CallBook::find_members() {
  std::unordered_map<std::string, std::vector<size_t>> named;
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (!groups_[i].members.empty()) named[groups_[i].name].push_back(i);
  }
  for (BookedGroup& without : groups_) {
    const auto same_name = named.find(without.name);
    if (!without.members.empty() || same_name == named.end()) continue;
    for (auto told = without.ranks.begin(); told != without.ranks.end();) {
      BookedGroup* only = nullptr;
      size_t fitting = 0;
      for (const size_t i : same_name->second) {
        const auto& members = groups_[i].members;
        if (!std::binary_search(members.begin(), members.end(), told->first)) continue;
        only = &groups_[i];
        ++fitting;
      }
      if (fitting != 1 || only->ranks.contains(told->first)) {
        ++told;
        continue;
      }
      only->ranks[told->first] = std::move(told->second);
      told = without.ranks.erase(told);
    }
  }
  std::erase_if(groups_, [](const BookedGroup& group) { return group.ranks.empty(); });
}

void CallBook::settle() {
  find_members();
  for (BookedGroup& group : groups_) {
    if (group.members.empty() && group.description == "default_pg") {
      for (const auto& [rank, newest_ns] : ranks_) group.members.push_back(rank);
    }
    for (const int32_t rank : group.members) {
      if (!ranks_.contains(rank) || group.ranks.contains(rank)) continue;
      BookedCalls& made = group.ranks[rank];
      made.calls.rank = rank;
      made.is_known = whole_.contains(rank);
    }
  }
}

}  // namespace paramedic::cluster
