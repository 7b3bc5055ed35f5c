#include "cluster/dump_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

#include "base/in_order.h"
#include "cluster/ranks.h"

namespace paramedic::cluster {
namespace {

constexpr size_t kGroupRanksMax = 1 << 20;
constexpr size_t kTensorsMax = 4'096;  // of one call; a fused operation has some hundreds
constexpr size_t kSizesMax = 64;       // of one tensor
constexpr int64_t kRecordMax = 1LL << 53;

void append_raw(std::string& key, int64_t value) {
  key.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

std::vector<int32_t> ranks_in_text(std::string_view text) {
  std::vector<int32_t> ranks;
  size_t at = 0;
  while (ranks.size() < kGroupRanksMax) {
    at = text.find_first_of("0123456789", at);
    if (at == std::string_view::npos) break;
    int64_t value = -1;
    const bool negative = at > 0 && text[at - 1] == '-';
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), value);
    at = static_cast<size_t>(end - text.data());
    if (error == std::errc() && !negative && value <= kDumpRankMax) {
      ranks.push_back(static_cast<int32_t>(value));
    }
  }
  put_in_order(ranks);
  return ranks;
}

template <typename Cursor>
Result<FlightDump> DumpReader<Cursor>::read() {
  if (json_.next() != Kind::kObject) return corruption("it is neither JSON nor a pickle of a dump");
  json_.object([&](std::string_view key) { read_member(key); });
  if (!json_.error().empty()) return corruption(Cursor::kDamaged + json_.error());
  if (!json_.is_at_end()) return corruption("something stands behind the JSON");
  if (!is_dump_) return corruption("this is no dump of a flight recorder");
  finish();
  return std::move(dump_);
}

template <typename Cursor>
void DumpReader<Cursor>::read_member(std::string_view key) {
  if (key == "entries") {
    is_dump_ = true;
    if (json_.next() == Kind::kArray) json_.array([&] { read_entry(); });
  } else if (key == "pg_status") {
    is_dump_ = true;
    read_status();
  } else if (key == "pg_config") {
    read_config();
  } else if (key == "rank") {
    const int64_t rank = number_or(-1);
    if (rank >= 0 && rank <= kDumpRankMax) dump_.rank = static_cast<int32_t>(rank);
  } else if (key == "version") {
    dump_.version = text_or_nothing();
  }
}

template <typename Cursor>
int64_t DumpReader<Cursor>::number_or(int64_t fallback) {
  if (json_.next() != Kind::kString) return json_.integer().value_or(fallback);
  const std::string_view text = json_.string();
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : fallback;
}

template <typename Cursor>
bool DumpReader<Cursor>::is_true() {
  const bool found = json_.next() == Kind::kTrue;
  json_.skip();
  return found;
}

template <typename Cursor>
std::string_view DumpReader<Cursor>::text_or_nothing() {
  return json_.next() == Kind::kString ? json_.string() : std::string_view();
}

template <typename Cursor>
void DumpReader<Cursor>::read_entry() {
  if (json_.next() != Kind::kObject) return;
  // Entries have the same members, and most of their values repeat.
  const auto changed = [&](size_t number) { read_entry_member(members_[number]); };
  if (!json_.object_like(layout_, changed)) {
    entry_ = {};
    members_.clear();
    bool is_told_twice = false;
    json_.object(layout_, [&](std::string_view key) {
      const EntryMember member = member_of(key);
      const auto same = std::find(members_.begin(), members_.end(), member);
      is_told_twice = is_told_twice || (member != EntryMember::kNone && same != members_.end());
      members_.push_back(member);
      read_entry_member(member);
    });
    if (is_told_twice) layout_.forget();  // which value counts depends on all of them
  }
  add_entry();
}

template <typename Cursor>
EntryMember DumpReader<Cursor>::member_of(std::string_view key) {
  static constexpr std::array<std::pair<std::string_view, EntryMember>, 13> kMembers = {
      {{"collective_seq_id", EntryMember::kCollective},
       {"p2p_seq_id", EntryMember::kTransfer},
       {"is_p2p", EntryMember::kIsTransfer},
       {"input_sizes", EntryMember::kSizes},
       {"input_dtypes", EntryMember::kDtypes},
       {"pg_id", EntryMember::kGroupId},
       {"process_group", EntryMember::kGroup},
       {"profiling_name", EntryMember::kName},
       {"record_id", EntryMember::kRecord},
       {"retired", EntryMember::kRetired},
       {"state", EntryMember::kState},
       {"time_created_ns", EntryMember::kCreated},
       {"frames", EntryMember::kFrames}}};
  for (const auto& [name, member] : kMembers) {
    if (name == key) return member;
  }
  return EntryMember::kNone;
}

template <typename Cursor>
void DumpReader<Cursor>::read_entry_member(EntryMember member) {
  switch (member) {
    case EntryMember::kNone:
      return;
    case EntryMember::kCollective:
      entry_.collective = number_or(0);
      return;
    case EntryMember::kTransfer:
      entry_.transfer = number_or(0);
      return;
    case EntryMember::kIsTransfer:
      entry_.is_transfer = is_true();
      return;
    case EntryMember::kSizes:
      return read_sizes();
    case EntryMember::kDtypes:
      return read_dtypes();
    case EntryMember::kGroupId:
      entry_.group_id = number_or(-1);
      entry_.group_at.reset();
      return;
    case EntryMember::kGroup:
      return read_group_of_entry();
    case EntryMember::kName:
      entry_.name = text_or_nothing();
      entry_.call_at.reset();
      return;
    case EntryMember::kRecord: {
      const int64_t record = number_or(-1);
      entry_.record = record <= kRecordMax ? record : -1;
      return;
    }
    case EntryMember::kRetired:
      entry_.retired = is_true();
      return;
    case EntryMember::kState:
      entry_.is_completed = text_or_nothing() == "completed";
      return;
    case EntryMember::kCreated:
      entry_.created_ns = number_or(0);
      return;
    case EntryMember::kFrames:
      return read_frames();
  }
}

// The name, then the description.
template <typename Cursor>
void DumpReader<Cursor>::read_group_of_entry() {
  entry_.group.clear();
  entry_.description.clear();
  entry_.group_at.reset();
  if (json_.next() != Kind::kArray) return;
  size_t at = 0;
  json_.array([&] {
    const std::string_view text = text_or_nothing();
    if (at == 0) entry_.group = text;
    if (at == 1) entry_.description = text;
    ++at;
  });
}

template <typename Cursor>
void DumpReader<Cursor>::read_dtypes() {
  entry_.dtypes.clear();
  entry_.call_at.reset();
  if (json_.next() != Kind::kArray) return;
  json_.array([&] {
    if (!entry_.dtypes.empty()) entry_.dtypes += ' ';
    entry_.dtypes += text_or_nothing();
  });
}

template <typename Cursor>
void DumpReader<Cursor>::read_sizes() {
  std::vector<int64_t>& sizes = entry_.sizes;
  sizes.clear();
  entry_.call_at.reset();
  if (json_.next() != Kind::kArray) return;
  size_t tensors = 0;
  json_.array([&] {
    if (json_.next() != Kind::kArray || ++tensors > kTensorsMax) return;
    const size_t count_at = sizes.size();
    sizes.push_back(0);
    json_.array([&] {
      const auto size = json_.integer();
      if (!size || sizes[count_at] >= static_cast<int64_t>(kSizesMax)) return;
      sizes.push_back(*size);
      ++sizes[count_at];
    });
  });
}

// Frames are innermost first: the first own one is the call's.
template <typename Cursor>
void DumpReader<Cursor>::read_frames() {
  entry_.site = 0;
  if (json_.next() == Kind::kArray) json_.array([&] { read_frame(); });
}

template <typename Cursor>
void DumpReader<Cursor>::read_frame() {
  if (entry_.site != 0) return;
  const uint64_t identity = json_.identity();
  if (identity == 0) {
    entry_.site = site_of_frame();
    return;
  }
  if (identity >= shared_frames_.size()) shared_frames_.resize(identity + 1);
  std::optional<uint32_t>& known = shared_frames_[identity];
  if (!known) known = site_of_frame();
  entry_.site = *known;
}

// 0: it is not the job's own.
template <typename Cursor>
uint32_t DumpReader<Cursor>::site_of_frame() {
  if (json_.next() != Kind::kObject) return 0;
  store::CallSite frame;
  json_.object([&](std::string_view key) {
    if (key == "filename") {
      frame.file = text_or_nothing();
    } else if (key == "line") {
      const int64_t line = number_or(0);
      if (line > 0 && line <= INT32_MAX) frame.line = static_cast<int32_t>(line);
    } else if (key == "name") {
      frame.function = text_or_nothing();
    }
  });
  if (frame.line <= 0) return 0;
  auto known = own_files_.find(frame.file);
  if (known == own_files_.end()) {
    known = own_files_.emplace(frame.file, is_own_file(frame.file)).first;
  }
  if (!known->second) return 0;
  const auto next = static_cast<uint32_t>(dump_.sites.size());
  const auto [site, is_new] = sites_.try_emplace({frame.file, frame.line}, next);
  if (is_new) dump_.sites.push_back(std::move(frame));
  return site->second;
}

template <typename Cursor>
void DumpReader<Cursor>::read_config() {
  if (json_.next() != Kind::kObject) return;
  json_.object([&](std::string_view key) {
    // Gloo's recorder lists one group without a name, which says nothing.
    if (key.empty() || json_.next() != Kind::kObject) return;
    const uint32_t group = group_named(key);
    if (group == UINT32_MAX) return;
    json_.object([&](std::string_view member) { read_config_member(member, dump_.groups[group]); });
  });
}

template <typename Cursor>
void DumpReader<Cursor>::read_config_member(std::string_view key, FlightGroup& group) {
  if (key == "desc") group.description = text_or_nothing();
  if (key != "ranks") return;
  if (json_.next() == Kind::kString) {
    group.ranks = ranks_in_text(json_.string());
  } else if (json_.next() == Kind::kArray) {
    json_.array([&] {
      const int64_t rank = number_or(-1);
      if (rank < 0 || rank > kDumpRankMax || group.ranks.size() >= kGroupRanksMax) return;
      group.ranks.push_back(static_cast<int32_t>(rank));
    });
    put_in_order(group.ranks);
  }
}

template <typename Cursor>
void DumpReader<Cursor>::read_status() {
  if (json_.next() != Kind::kObject) return;
  json_.object([&](std::string_view key) {
    if (json_.next() != Kind::kObject || status_.size() >= kDumpGroupsMax) return;
    Status& status = status_[std::string(key)];
    json_.object([&](std::string_view member) {
      if (member == "last_enqueued_collective") status.last_enqueued = number_or(-1);
      if (member == "last_completed_collective") status.last_completed = number_or(-1);
    });
  });
}

// UINT32_MAX: there are too many.
template <typename Cursor>
uint32_t DumpReader<Cursor>::group_named(std::string_view name) {
  const auto known = groups_.find(name);
  if (known != groups_.end()) return known->second;
  if (dump_.groups.size() >= kDumpGroupsMax) return UINT32_MAX;
  const auto next = static_cast<uint32_t>(dump_.groups.size());
  groups_.emplace(name, next);
  dump_.groups.emplace_back().name = name;
  return next;
}

// UINT32_MAX: there are too many.
template <typename Cursor>
uint32_t DumpReader<Cursor>::group_of_entry() {
  if (entry_.group_at) return *entry_.group_at;
  const uint32_t group = group_named(entry_.group);
  if (group == UINT32_MAX) return group;
  std::string& description = dump_.groups[group].description;
  if (description.empty()) description = entry_.description;
  const bool is_numbered =
      std::find(members_.begin(), members_.end(), EntryMember::kGroupId) != members_.end();
  if (is_numbered) group_of_id_.insert_or_assign(std::to_string(entry_.group_id), group);
  entry_.group_at = group;
  return group;
}

template <typename Cursor>
uint32_t DumpReader<Cursor>::intern_call() {
  if (entry_.call_at) return *entry_.call_at;
  call_key_ = entry_.name;
  call_key_ += '\0';
  call_key_ += entry_.dtypes;
  for (const int64_t size : entry_.sizes) append_raw(call_key_, size);
  const auto next = static_cast<uint32_t>(dump_.calls.size());
  const auto [known, is_new] = calls_.try_emplace(call_key_, next);
  if (is_new) make_call(dump_.calls.emplace_back());
  entry_.call_at = known->second;
  return known->second;
}

template <typename Cursor>
void DumpReader<Cursor>::make_call(FlightCall& call) const {
  const std::string& name = entry_.name;
  const std::vector<int64_t>& sizes = entry_.sizes;
  const size_t colon = name.find(':');
  call.backend = colon == std::string::npos ? "" : name.substr(0, colon);
  call.operation = colon == std::string::npos ? name : name.substr(colon + 1);
  call.dtypes = entry_.dtypes;
  for (size_t at = 0; at < sizes.size();) {
    const auto count = static_cast<std::ptrdiff_t>(sizes[at]);
    const auto first = sizes.begin() + static_cast<std::ptrdiff_t>(at) + 1;
    call.input_sizes.emplace_back(first, first + count);
    at += static_cast<size_t>(count) + 1;
  }
}

template <typename Cursor>
void DumpReader<Cursor>::add_entry() {
  const bool is_first = dump_.entries.empty() && dump_.entries_left_out == 0;
  if (is_first) dump_.is_whole = entry_.record == 0;
  if (is_first) dump_.first_record = entry_.record;
  const auto expected = dump_.first_record + static_cast<int64_t>(dump_.entries.size());
  if (entry_.record != expected) dump_.first_record = -1;
  FlightEntry made;
  made.group = group_of_entry();
  if (made.group == UINT32_MAX || dump_.entries.size() >= kDumpEntriesMax) {
    ++dump_.entries_left_out;
    return;
  }
  made.call = intern_call();
  made.site = entry_.site;
  made.point_to_point = entry_.is_transfer;
  made.sequence = entry_.is_transfer ? entry_.transfer : entry_.collective;
  made.created_ns = entry_.created_ns;
  // Gloo's recorder never moves `state` on; NCCL's watchdog retires what it gives up too.
  const bool is_gloo = dump_.calls[made.call].backend == "gloo";
  made.completed = is_gloo ? entry_.retired : entry_.is_completed;
  dump_.entries.push_back(made);
}

template <typename Cursor>
void DumpReader<Cursor>::finish() {
  for (const auto& [id, status] : status_) {
    const auto named = group_of_id_.find(id);
    // Where no entry tells the numbers, the first group is still the one of all ranks.
    const bool is_first = group_of_id_.empty() && id == "0";
    if (named == group_of_id_.end() && !is_first) continue;
    const uint32_t group = is_first ? group_named(id) : named->second;
    if (group == UINT32_MAX) continue;
    dump_.groups[group].last_enqueued = status.last_enqueued;
    dump_.groups[group].last_completed = status.last_completed;
  }
}

template class DumpReader<JsonCursor>;
template class DumpReader<PickleCursor>;

}  // namespace paramedic::cluster
