#include "cluster/flight_dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "base/json.h"
#include "cluster/pickle.h"
#include "cluster/ranks.h"

namespace paramedic::cluster {
namespace {

namespace fs = std::filesystem;

constexpr int kFolderDepthMax = 8;

// Numbers stand as numbers in pickles and as text in JSON.
int64_t number_of(const Json& json, const char* key, int64_t fallback) {
  const auto found = json.find(key);
  if (found == json.end()) return fallback;
  if (found->is_number_integer()) return found->get<int64_t>();
  if (!found->is_string()) return fallback;
  const auto& text = found->get_ref<const std::string&>();
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : fallback;
}

// A list, or its text: "[0, 1]".
std::vector<int32_t> ranks_of(const Json& json) {
  const auto found = json.find("ranks");
  std::vector<int32_t> ranks;
  if (found == json.end()) return ranks;
  const Result<Json> list = found->is_string()
                                ? parse_json(found->get_ref<const std::string&>(), "ranks")
                                : Result<Json>(*found);
  if (!list.ok() || !list->is_array()) return ranks;
  for (const Json& rank : *list) {
    if (rank.is_number_integer()) ranks.push_back(rank.get<int32_t>());
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

std::vector<std::vector<int64_t>> sizes_of(const Json& json, const char* key) {
  std::vector<std::vector<int64_t>> all;
  const auto found = json.find(key);
  if (found == json.end() || !found->is_array()) return all;
  for (const Json& sizes : *found) {
    std::vector<int64_t>& tensor = all.emplace_back();
    if (!sizes.is_array()) continue;
    for (const Json& size : sizes) {
      if (size.is_number_integer()) tensor.push_back(size.get<int64_t>());
    }
  }
  return all;
}

// Frames are innermost first.
std::optional<store::CallSite> where_of(const Json& json) {
  std::vector<store::CallSite> stack;
  const auto frames = json.find("frames");
  if (frames == json.end() || !frames->is_array()) return std::nullopt;
  for (const Json& frame : *frames) {
    if (!frame.is_object()) continue;
    stack.push_back({string_or(frame, "filename", ""),
                     static_cast<int32_t>(integer_or(frame, "line", 0)),
                     string_or(frame, "name", "")});
  }
  return own_line(stack);
}

FlightEntry entry_of(const Json& json) {
  FlightEntry entry;
  const auto group = json.find("process_group");
  if (group != json.end() && group->is_array() && !group->empty() && (*group)[0].is_string()) {
    entry.group = (*group)[0].get<std::string>();
  }
  entry.point_to_point = bool_or(json, "is_p2p", false);
  entry.sequence = number_of(json, entry.point_to_point ? "p2p_seq_id" : "collective_seq_id", 0);
  const std::string name = string_or(json, "profiling_name", "");
  const size_t colon = name.find(':');
  entry.backend = colon == std::string::npos ? "" : name.substr(0, colon);
  entry.operation = colon == std::string::npos ? name : name.substr(colon + 1);
  if (const auto dtypes = json.find("input_dtypes"); dtypes != json.end() && dtypes->is_array()) {
    for (const Json& dtype : *dtypes) {
      if (!dtype.is_string()) continue;
      entry.dtypes += (entry.dtypes.empty() ? "" : " ") + dtype.get<std::string>();
    }
  }
  entry.input_sizes = sizes_of(json, "input_sizes");
  entry.output_sizes = sizes_of(json, "output_sizes");
  // Gloo's recorder never moves `state` on; NCCL's watchdog retires what it gives up too.
  entry.completed = entry.backend == "gloo" ? bool_or(json, "retired", false)
                                            : string_or(json, "state", "") == "completed";
  entry.created_ns = number_of(json, "time_created_ns", 0);
  entry.timeout_s = static_cast<double>(number_of(json, "timeout_ms", 0)) / 1e3;
  entry.where = where_of(json);
  return entry;
}

void read_groups(const Json& json, FlightDump& dump) {
  if (const auto config = json.find("pg_config"); config != json.end() && config->is_object()) {
    for (const auto& [name, group] : config->items()) {
      // Gloo's recorder lists one group without a name, which says nothing.
      if (name.empty() || !group.is_object()) continue;
      dump.groups[name].description = string_or(group, "desc", "");
      dump.groups[name].ranks = ranks_of(group);
    }
  }
  if (const auto status = json.find("pg_status"); status != json.end() && status->is_object()) {
    for (const auto& [name, group] : status->items()) {
      if (!group.is_object()) continue;
      dump.groups[name].last_enqueued = number_of(group, "last_enqueued_collective", -1);
      dump.groups[name].last_completed = number_of(group, "last_completed_collective", -1);
    }
  }
}

// The number after the last "rank" of the file's name, else its last number; -1 without one.
int32_t rank_of_name(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  const auto number_at = [&](size_t begin) {
    int32_t value = -1;
    const auto result = std::from_chars(name.data() + begin, name.data() + name.size(), value);
    return result.ec == std::errc() ? value : -1;
  };
  size_t after_rank = name.rfind("rank");
  if (after_rank != std::string::npos) {
    after_rank = name.find_first_not_of("_-. ", after_rank + 4);
    const int32_t rank = after_rank == std::string::npos ? -1 : number_at(after_rank);
    if (rank >= 0) return rank;
  }
  const size_t end = name.find_last_of("0123456789");
  if (end == std::string::npos) return -1;
  const size_t before = name.find_last_not_of("0123456789", end);
  return number_at(before == std::string::npos ? 0 : before + 1);
}

class Collection {
 public:
  explicit Collection(FileSystem& files) : files_(files) {}

  void add_file(const std::string& path) {
    if (++seen_ > kDumpFilesMax) {
      if (seen_ == kDumpFilesMax + 1) {
        problem(fmt::format("only the first {} files were read", kDumpFilesMax));
      }
      return;
    }
    auto dump = read(path);
    if (!dump.ok()) {
      problem(dump.status().message());
      return;
    }
    const auto [known, is_new] = paths_.try_emplace(dump->rank, path);
    if (is_new) {
      result_.dumps.push_back(std::move(dump).value());
    } else {
      problem(fmt::format("{} is a second dump of rank {}, beside {}", path, dump->rank,
                          known->second));
    }
  }

  void add_folder(const std::string& path, int depth) {
    const auto names = files_.list(path);
    if (!names.ok()) {
      problem(names.status().message());
      return;
    }
    for (const std::string& name : *names) {
      const std::string child = path + "/" + name;
      std::error_code error;
      if (!fs::is_directory(child, error)) {
        add_file(child);
      } else if (depth < kFolderDepthMax) {
        add_folder(child, depth + 1);
      }
    }
  }

  FlightDumps take() {
    std::sort(result_.dumps.begin(), result_.dumps.end(),
              [](const FlightDump& a, const FlightDump& b) { return a.rank < b.rank; });
    return std::move(result_);
  }

 private:
  void problem(std::string text) {
    if (++result_.problems_total <= kDumpProblemsMax) result_.problems.push_back(std::move(text));
  }

  Result<FlightDump> read(const std::string& path) {
    PARAMEDIC_ASSIGN(const uint64_t bytes, files_.size(path));
    if (bytes > kDumpBytesMax) {
      return exhausted(fmt::format("{} has {} bytes, too many for a dump", path, bytes));
    }
    PARAMEDIC_ASSIGN(const std::string text, files_.read(path));
    return parse_flight_dump(as_bytes(text), path);
  }

  FileSystem& files_;
  size_t seen_ = 0;
  std::map<int32_t, std::string> paths_;  // by rank
  FlightDumps result_;
};

}  // namespace

Result<FlightDump> parse_flight_dump(Bytes bytes, const std::string& path) {
  const auto parsed = looks_like_pickle(bytes)
                          ? parse_pickle(bytes)
                          : parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                                       "a dump of a flight recorder");
  if (!parsed.ok()) {
    const Status& why = parsed.status();
    return {Status(why.code(), fmt::format("{}: {}", path, why.message()), why.hint())};
  }
  const bool is_dump =
      parsed->is_object() && (parsed->contains("entries") || parsed->contains("pg_status"));
  if (!is_dump) return corruption(path + ": this is no dump of a flight recorder");
  FlightDump dump;
  dump.path = path;
  dump.version = string_or(*parsed, "version", "");
  dump.rank = static_cast<int32_t>(number_of(*parsed, "rank", rank_of_name(path)));
  if (dump.rank < 0) {
    return invalid_argument(path + ": neither the dump nor its name tells the rank",
                            "rename it so that it ends in the rank: dump_rank_3");
  }
  read_groups(*parsed, dump);
  const auto entries = parsed->find("entries");
  if (entries == parsed->end() || !entries->is_array()) return dump;
  for (const Json& entry : *entries) {
    if (dump.entries.size() >= kDumpEntriesMax) break;
    if (entry.is_object()) dump.entries.push_back(entry_of(entry));
  }
  return dump;
}

Result<FlightDumps> read_flight_dumps(FileSystem& files, const std::vector<std::string>& paths) {
  Collection collection(files);
  for (const std::string& path : paths) {
    std::error_code error;
    if (fs::is_directory(path, error)) {
      collection.add_folder(path, 0);
    } else if (fs::exists(path, error)) {
      collection.add_file(path);
    } else {
      return not_found(path + " does not exist");
    }
  }
  FlightDumps result = collection.take();
  if (result.dumps.empty()) {
    return invalid_argument(
        result.problems.empty() ? "there is no dump of a flight recorder in " + paths.front()
                                : result.problems.front(),
        "set TORCH_FR_BUFFER_SIZE and TORCH_FR_DUMP_TEMP_FILE in the job, or use `paramedic run`");
  }
  return result;
}

}  // namespace paramedic::cluster
