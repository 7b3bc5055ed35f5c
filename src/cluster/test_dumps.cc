#include "cluster/test_dumps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/json.h"

namespace paramedic::cluster {
namespace {

// Writes plain data with the opcodes of protocol 2.
class Pickler {
 public:
  std::string pickle(const Json& json) {
    bytes_ = "\x80\x02";
    write(json);
    return bytes_ + '.';
  }

 private:
  void write(const Json& json) {
    if (json.is_null()) {
      bytes_ += 'N';
    } else if (json.is_boolean()) {
      bytes_ += json.get<bool>() ? '\x88' : '\x89';
    } else if (json.is_number()) {
      bytes_ += "\x8a\x08";
      append(json.get<int64_t>());
    } else if (json.is_string()) {
      write_once(to_text(json), [&] {
        const auto text = json.get<std::string>();
        bytes_ += 'X';
        append(static_cast<uint32_t>(text.size()));
        bytes_ += text;
      });
    } else if (json.is_array()) {
      bytes_ += "](";
      for (const Json& item : json) write(item);
      bytes_ += 'e';
    } else if (json.contains("filename")) {
      write_once(to_text(json), [&] { write_dict(json); });
    } else {
      write_dict(json);
    }
  }

  void write_dict(const Json& json) {
    bytes_ += "}(";
    for (const auto& [key, value] : json.items()) {
      write(Json(key));
      write(value);
    }
    bytes_ += 'u';
  }

  template <typename Write>
  void write_once(const std::string& what, const Write& write_it) {
    const auto known = places_.find(what);
    if (known == places_.end()) write_it();
    bytes_ += known == places_.end() ? 'r' : 'j';
    const auto next = static_cast<uint32_t>(places_.size());
    append(known == places_.end() ? places_.emplace(what, next).first->second : known->second);
  }

  template <typename Number>
  void append(Number number) {
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof number);
  }

  std::string bytes_;
  std::map<std::string, uint32_t> places_;
};

constexpr int64_t kStartNs = 1'796'000'000'000'000'000;
constexpr int64_t kWaitedNs = 600'000'000'000;

}  // namespace

TestDumps::TestDumps(int32_t ranks, bool members_told) {
  std::vector<int32_t> all;
  for (int32_t rank = 0; rank < ranks; ++rank) all.push_back(rank);
  for (int32_t rank = 0; rank < ranks; ++rank) {
    FlightDump& dump = dumps_.emplace_back();
    dump.path = fmt::format("rank_{}", rank);
    dump.rank = rank;
    dump.version = "2.10";
    dump.is_whole = true;
    dump.first_record = 0;
    dump.written_ns = kStartNs + kWaitedNs;
    dump.groups.push_back({"0", "default_pg", {}, -1, -1});
    if (members_told) dump.groups[0].ranks = all;
  }
}

void TestDumps::group(const std::string& name, const std::vector<int32_t>& ranks) {
  for (const int32_t rank : ranks) {
    dumps_[static_cast<size_t>(rank)].groups.push_back({name, "", ranks, -1, -1});
  }
}

void TestDumps::call(int32_t rank, const std::string& operation, int32_t line, bool completed,
                     const std::string& group, int64_t size) {
  FlightDump& into = dump(rank);
  FlightEntry entry;
  const auto named = std::find_if(into.groups.begin(), into.groups.end(),
                                  [&](const FlightGroup& one) { return one.name == group; });
  entry.group = static_cast<uint32_t>(named - into.groups.begin());
  entry.point_to_point = operation.starts_with("send") || operation.starts_with("recv");
  const auto same = std::find_if(into.calls.begin(), into.calls.end(), [&](const FlightCall& one) {
    return one.operation == operation && one.input_sizes[0][0] == size;
  });
  entry.call = static_cast<uint32_t>(same - into.calls.begin());
  if (same == into.calls.end()) into.calls.push_back({operation, "nccl", "Float", {{size}}});
  const auto site = std::find_if(into.sites.begin(), into.sites.end(),
                                 [&](const store::CallSite& one) { return one.line == line; });
  entry.site = static_cast<uint32_t>(site - into.sites.begin());
  if (site == into.sites.end()) into.sites.push_back({"/home/me/train.py", line, "train"});
  entry.sequence = ++sequences_[{rank, entry.point_to_point ? group + "/p2p" : group}];
  entry.completed = completed;
  entry.created_ns = kStartNs + static_cast<int64_t>(into.entries.size()) * 1'000'000;
  into.entries.push_back(entry);
}

void TestDumps::all_reduce_on_all(int calls) {
  for (FlightDump& one : dumps_) {
    for (int i = 0; i < calls; ++i) call(one.rank, "all_reduce", 50);
  }
}

void TestDumps::overwrite(int32_t rank, size_t entries) {
  FlightDump& one = dump(rank);
  one.entries.erase(one.entries.begin(),
                    one.entries.begin() + static_cast<std::ptrdiff_t>(entries));
  one.is_whole = false;
  one.first_record += static_cast<int64_t>(entries);
}

std::string TestDumps::json(int32_t rank) const { return to_text(values(rank)); }

std::string TestDumps::pickle(int32_t rank) const { return Pickler().pickle(values(rank)); }

Json TestDumps::values(int32_t rank) const {
  const FlightDump& one = dumps_[static_cast<size_t>(rank)];
  Json entries = Json::array();
  for (size_t i = 0; i < one.entries.size(); ++i) {
    const FlightEntry& entry = one.entries[i];
    const FlightCall& call = one.calls[entry.call];
    const store::CallSite& site = one.sites[entry.site];
    const FlightGroup& group = one.groups[entry.group];
    Json frames = Json::array();
    const auto add_library = [&](const char* part) {
      for (int32_t line = 1; line <= library_frames_; ++line) {
        const std::string file = fmt::format("/usr/lib/python3/site-packages/{}.py", part);
        frames.push_back({{"name", "call"}, {"filename", file}, {"line", line}});
      }
    };
    add_library("torch/distributed");
    frames.push_back({{"name", site.function}, {"filename", site.file}, {"line", site.line}});
    add_library("lightning/trainer");
    entries.push_back({{"frames", std::move(frames)},
                       {"record_id", static_cast<int64_t>(i) + one.first_record},
                       {"pg_id", entry.group},
                       {"process_group", {group.name, group.description}},
                       {"collective_seq_id", entry.point_to_point ? 0 : entry.sequence},
                       {"p2p_seq_id", entry.point_to_point ? entry.sequence : 0},
                       {"op_id", i + 1},
                       {"profiling_name", "nccl:" + call.operation},
                       {"time_created_ns", entry.created_ns},
                       {"input_sizes", call.input_sizes},
                       {"input_dtypes", {call.dtypes}},
                       {"output_sizes", call.input_sizes},
                       {"output_dtypes", {call.dtypes}},
                       {"state", entry.completed ? "completed" : "started"},
                       {"time_discovered_started_ns", entry.created_ns},
                       {"time_discovered_completed_ns", nullptr},
                       {"retired", entry.completed},
                       {"timeout_ms", 600000},
                       {"is_p2p", entry.point_to_point}});
  }
  Json config = Json::object();
  for (const FlightGroup& group : one.groups) {
    config[group.name] = {{"name", group.name},
                          {"desc", group.description},
                          {"ranks", fmt::format("[{}]", fmt::join(group.ranks, ", "))}};
  }
  return {{"version", one.version},
          {"rank", one.rank},
          {"pg_config", std::move(config)},
          {"entries", std::move(entries)}};
}

}  // namespace paramedic::cluster
