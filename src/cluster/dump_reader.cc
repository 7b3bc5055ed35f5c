#include "cluster/dump_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>

#include "cluster/ranks.h"

namespace paramedic::cluster {
namespace {

using Kind = JsonCursor::Kind;

constexpr size_t kGroupRanksMax = 1 << 20;
constexpr size_t kTensorsMax = 4'096;  // of one call; a fused operation has some hundreds
constexpr size_t kSizesMax = 64;       // of one tensor
constexpr int64_t kRecordMax = 1LL << 53;

void append_raw(std::string& key, int64_t value) {
  key.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_in_order(std::vector<int32_t>& ranks) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
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

void DumpReader::Entry::clear() {
  group.clear();
  description.clear();
  group_id.clear();
  collective = transfer = created_ns = 0;
  record = -1;
  is_transfer = retired = is_completed = false;
  site = 0;
}

Result<FlightDump> DumpReader::read() {
  if (json_.next() != Kind::kObject) return corruption("it is neither JSON nor a pickle of a dump");
  json_.object([&](std::string_view key) { read_member(key); });
  if (!json_.error().empty()) return corruption("the JSON is damaged: " + json_.error());
  if (!json_.is_at_end()) return corruption("something stands behind the JSON");
  if (!is_dump_) return corruption("this is no dump of a flight recorder");
  finish();
  return std::move(dump_);
}

void DumpReader::read_member(std::string_view key) {
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

int64_t DumpReader::number_or(int64_t fallback) {
  if (json_.next() != Kind::kString) return json_.integer().value_or(fallback);
  const std::string_view text = json_.string();
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : fallback;
}

bool DumpReader::is_true() {
  const bool found = json_.next() == Kind::kTrue;
  json_.skip();
  return found;
}

std::string_view DumpReader::text_or_nothing() {
  return json_.next() == Kind::kString ? json_.string() : std::string_view();
}

void DumpReader::read_entry() {
  if (json_.next() != Kind::kObject) return;
  entry_.clear();
  name_.clear();
  dtypes_.clear();
  sizes_.clear();
  json_.object([&](std::string_view key) { read_entry_member(key); });
  add_entry();
}

void DumpReader::read_entry_member(std::string_view key) {
  if (key == "collective_seq_id") {
    entry_.collective = number_or(0);
  } else if (key == "p2p_seq_id") {
    entry_.transfer = number_or(0);
  } else if (key == "is_p2p") {
    entry_.is_transfer = is_true();
  } else if (key == "input_sizes") {
    read_sizes();
  } else if (key == "input_dtypes" && json_.next() == Kind::kArray) {
    json_.array([&] {
      if (!dtypes_.empty()) dtypes_ += ' ';
      dtypes_ += text_or_nothing();
    });
  } else if (key == "pg_id") {
    entry_.group_id = std::to_string(number_or(-1));
  } else if (key == "process_group") {
    read_group_of_entry();
  } else if (key == "profiling_name") {
    name_ = text_or_nothing();
  } else if (key == "record_id") {
    const int64_t record = number_or(-1);
    entry_.record = record <= kRecordMax ? record : -1;
  } else if (key == "retired") {
    entry_.retired = is_true();
  } else if (key == "state") {
    entry_.is_completed = text_or_nothing() == "completed";
  } else if (key == "time_created_ns") {
    entry_.created_ns = number_or(0);
  } else if (key == "frames" && json_.next() == Kind::kArray) {
    json_.array([&] { read_frame(); });
  }
}

// The name, then the description.
void DumpReader::read_group_of_entry() {
  if (json_.next() != Kind::kArray) return;
  size_t at = 0;
  json_.array([&] {
    const std::string_view text = text_or_nothing();
    if (at == 0) entry_.group = text;
    if (at == 1) entry_.description = text;
    ++at;
  });
}

void DumpReader::read_sizes() {
  if (json_.next() != Kind::kArray) return;
  size_t tensors = 0;
  json_.array([&] {
    if (json_.next() != Kind::kArray || ++tensors > kTensorsMax) return;
    const size_t count_at = sizes_.size();
    sizes_.push_back(0);
    json_.array([&] {
      const auto size = json_.integer();
      if (!size || sizes_[count_at] >= static_cast<int64_t>(kSizesMax)) return;
      sizes_.push_back(*size);
      ++sizes_[count_at];
    });
  });
}

// Frames are innermost first: the first own one is the call's.
void DumpReader::read_frame() {
  if (json_.next() != Kind::kObject || entry_.site != 0) return;
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
  if (frame.line <= 0) return;
  auto known = own_files_.find(frame.file);
  if (known == own_files_.end()) {
    known = own_files_.emplace(frame.file, is_own_file(frame.file)).first;
  }
  if (!known->second) return;
  const auto next = static_cast<uint32_t>(dump_.sites.size());
  const auto [site, is_new] = sites_.try_emplace({frame.file, frame.line}, next);
  entry_.site = site->second;
  if (is_new) dump_.sites.push_back(std::move(frame));
}

void DumpReader::read_config() {
  if (json_.next() != Kind::kObject) return;
  json_.object([&](std::string_view key) {
    // Gloo's recorder lists one group without a name, which says nothing.
    if (key.empty() || json_.next() != Kind::kObject) return;
    const uint32_t group = group_named(key);
    if (group == UINT32_MAX) return;
    json_.object([&](std::string_view member) { read_config_member(member, dump_.groups[group]); });
  });
}

void DumpReader::read_config_member(std::string_view key, FlightGroup& group) {
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

void DumpReader::read_status() {
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
uint32_t DumpReader::group_named(std::string_view name) {
  const auto known = groups_.find(name);
  if (known != groups_.end()) return known->second;
  if (dump_.groups.size() >= kDumpGroupsMax) return UINT32_MAX;
  const auto next = static_cast<uint32_t>(dump_.groups.size());
  groups_.emplace(name, next);
  dump_.groups.emplace_back().name = name;
  return next;
}

uint32_t DumpReader::intern_call() {
  call_key_ = name_;
  call_key_ += '\0';
  call_key_ += dtypes_;
  for (const int64_t size : sizes_) append_raw(call_key_, size);
  if (call_key_ == last_call_key_ && !dump_.calls.empty()) return last_call_;
  const auto next = static_cast<uint32_t>(dump_.calls.size());
  const auto [known, is_new] = calls_.try_emplace(call_key_, next);
  if (is_new) make_call(dump_.calls.emplace_back());
  last_call_key_ = call_key_;
  last_call_ = known->second;
  return last_call_;
}

void DumpReader::make_call(FlightCall& call) const {
  const size_t colon = name_.find(':');
  call.backend = colon == std::string::npos ? "" : name_.substr(0, colon);
  call.operation = colon == std::string::npos ? name_ : name_.substr(colon + 1);
  call.dtypes = dtypes_;
  for (size_t at = 0; at < sizes_.size();) {
    const auto count = static_cast<std::ptrdiff_t>(sizes_[at]);
    const auto first = sizes_.begin() + static_cast<std::ptrdiff_t>(at) + 1;
    call.input_sizes.emplace_back(first, first + count);
    at += static_cast<size_t>(count) + 1;
  }
}

void DumpReader::add_entry() {
  const bool is_first = dump_.entries.empty() && dump_.entries_left_out == 0;
  if (is_first) dump_.is_whole = entry_.record == 0;
  if (is_first) dump_.first_record = entry_.record;
  const auto expected = dump_.first_record + static_cast<int64_t>(dump_.entries.size());
  if (entry_.record != expected) dump_.first_record = -1;
  FlightEntry made;
  made.group = group_named(entry_.group);
  if (made.group == UINT32_MAX || dump_.entries.size() >= kDumpEntriesMax) {
    ++dump_.entries_left_out;
    return;
  }
  std::string& description = dump_.groups[made.group].description;
  if (description.empty()) description = entry_.description;
  if (!entry_.group_id.empty()) group_of_id_.insert_or_assign(entry_.group_id, made.group);
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

void DumpReader::finish() {
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

}  // namespace paramedic::cluster
