#include <fmt/format.h>

#include "store/run.h"

namespace paramedic::store {
namespace {

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// A member of an array of strings that is none is left out.
std::vector<std::string> strings_of(const Json& json, const char* key) {
  std::vector<std::string> strings;
  const auto found = json.find(key);
  if (found == json.end() || !found->is_array()) return strings;
  for (const Json& item : *found) {
    if (item.is_string()) strings.push_back(item.get<std::string>());
  }
  return strings;
}

std::optional<double> optional_number(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

std::optional<int> optional_int(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<int>();
}

int int_or(const Json& json, const char* key, int fallback) {
  return static_cast<int>(integer_or(json, key, fallback));
}

RunInfo::Rank rank_of(const Json& json) {
  RunInfo::Rank rank;
  rank.rank = int_or(json, "rank", 0);
  rank.pid = int_or(json, "pid", 0);
  rank.host = string_or(json, "host", "");
  rank.status = string_or(json, "status", "");
  rank.last_step = integer_or(json, "last_step", -1);
  return rank;
}

}  // namespace

Json RunInfo::to_json() const {
  Json json;
  json["format"] = kRunFormatVersion;
  json["id"] = id;
  json["dir"] = dir;
  json["command"] = command;
  json["cwd"] = cwd;
  json["host"] = host;
  json["started"] = started;
  json["ended"] = or_null(ended);
  json["status"] = status;
  json["exit_code"] = or_null(exit_code);
  json["signal"] = or_null(signal);
  json["framework"] = framework;
  json["world_size"] = world_size;
  json["ranks"] = Json::array();
  for (const Rank& rank : ranks) {
    Json item;
    item["rank"] = rank.rank;
    item["pid"] = rank.pid;
    item["host"] = rank.host;
    item["status"] = rank.status;
    item["last_step"] = rank.last_step;
    json["ranks"].push_back(std::move(item));
  }
  json["steps"] = steps;
  json["overhead_percent"] = or_null(overhead_percent);
  json["dropped_records"] = dropped_records;
  json["agent_pid"] = agent_pid;
  json["agent_start_ticks"] = agent_start_ticks;
  json["ring_dir"] = ring_dir;
  json["failure"] = failure;
  json["not_captured"] = Json::array();
  for (const auto& [what, why] : not_captured) {
    json["not_captured"].push_back({{"what", what}, {"why", why}});
  }
  return json;
}

Result<RunInfo> RunInfo::from_json(const Json& json) {
  if (!json.is_object()) return corruption("run.json holds no JSON object");
  const int64_t format = integer_or(json, "format", 0);
  if (format > kRunFormatVersion) {
    return unsupported(fmt::format("the run is of format {}, this program reads up to {}", format,
                                   kRunFormatVersion),
                       "read it with a newer paramedic");
  }
  RunInfo info;
  info.id = string_or(json, "id", "");
  if (format < 1 || info.id.empty()) {
    return corruption("run.json lacks the format number or the id of the run");
  }
  info.dir = string_or(json, "dir", "");
  info.command = strings_of(json, "command");
  info.cwd = string_or(json, "cwd", "");
  info.host = string_or(json, "host", "");
  info.started = number_or(json, "started", 0);
  info.ended = optional_number(json, "ended");
  info.status = string_or(json, "status", "lost");
  info.exit_code = optional_int(json, "exit_code");
  info.signal = optional_int(json, "signal");
  info.framework = string_or(json, "framework", "");
  info.world_size = int_or(json, "world_size", 1);
  if (const auto ranks = json.find("ranks"); ranks != json.end() && ranks->is_array()) {
    for (const Json& rank : *ranks) info.ranks.push_back(rank_of(rank));
  }
  info.steps = integer_or(json, "steps", 0);
  info.overhead_percent = optional_number(json, "overhead_percent");
  info.dropped_records = static_cast<uint64_t>(integer_or(json, "dropped_records", 0));
  info.agent_pid = int_or(json, "agent_pid", 0);
  info.agent_start_ticks = static_cast<uint64_t>(integer_or(json, "agent_start_ticks", 0));
  info.ring_dir = string_or(json, "ring_dir", "");
  if (const auto failure = json.find("failure"); failure != json.end() && failure->is_object()) {
    info.failure = *failure;
  }
  if (const auto items = json.find("not_captured"); items != json.end() && items->is_array()) {
    for (const Json& item : *items) {
      info.not_captured.emplace_back(string_or(item, "what", ""), string_or(item, "why", ""));
    }
  }
  return info;
}

}  // namespace paramedic::store
