#include "cluster/lint/tf_config.h"

#include <fmt/format.h>

namespace paramedic::cluster {
namespace {

// Addresses are a list, or an object from index to address.
std::string read_addresses(const std::string& job, const Json& json,
                           std::vector<std::string>& addresses) {
  if (!json.is_array() && !json.is_object()) {
    return fmt::format("cluster.{} is no list of addresses", job);
  }
  for (const Json& address : json) {
    if (!address.is_string()) return fmt::format("an address of cluster.{} is no text", job);
    addresses.push_back(address.get<std::string>());
  }
  return "";
}

std::string read_task(const Json& task, TfConfig& config) {
  if (!task.is_object()) return "task is no object";
  const auto type = task.find("type");
  const auto index = task.find("index");
  if (type == task.end() || !type->is_string()) return "task has no type";
  config.type = type->get<std::string>();
  if (index == task.end()) return "task has no index";
  // TensorFlow takes "1" for 1.
  if (index->is_string()) {
    config.index = whole_number(index->get<std::string>()).value_or(-1);
  } else if (index->is_number_integer()) {
    config.index = index->get<int64_t>();
  }
  return config.index < 0 ? "task.index is no number from 0 on" : "";
}

}  // namespace

std::optional<int32_t> TfConfig::rank() const {
  if (index < 0) return std::nullopt;
  int32_t before = 0;
  for (const char* job : {"chief", "worker", "ps"}) {
    if (type == job) break;
    const auto addresses = cluster.find(job);
    if (addresses != cluster.end()) before += static_cast<int32_t>(addresses->second.size());
  }
  return before + static_cast<int32_t>(index);
}

std::string TfConfig::task() const {
  return type.empty() ? "a task" : fmt::format("{}:{}", type, index);
}

TfConfig parse_tf_config(const std::string& text) {
  TfConfig config;
  const auto json = parse_json(text, "TF_CONFIG");
  if (!json.ok()) {
    config.error = "it is no JSON";
    if (text.find('\'') != std::string::npos) config.error += ": names stand in \"…\", not in '…'";
    return config;
  }
  if (!json->is_object()) {
    config.error = "it is no JSON object";
    return config;
  }
  const auto cluster = json->find("cluster");
  if (cluster != json->end() && cluster->is_object()) {
    for (const auto& [job, addresses] : cluster->items()) {
      const std::string error = read_addresses(job, addresses, config.cluster[job]);
      if (config.error.empty()) config.error = error;
    }
  } else if (cluster != json->end() || json->contains("task")) {
    config.error = "it has no object `cluster`";
  }
  const auto task = json->find("task");
  if (config.error.empty() && task != json->end()) config.error = read_task(*task, config);
  if (config.error.empty() && task == json->end() && !config.cluster.empty()) {
    config.error = "it has no object `task`";
  }
  return config;
}

}  // namespace paramedic::cluster
