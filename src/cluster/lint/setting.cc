#include "cluster/lint/setting.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace paramedic::cluster {
namespace {

struct RankNames {
  const char* rank;
  const char* world_size;
};
// The same order as python/paramedic/_probe.py.
constexpr std::array kRankNames = {RankNames{"RANK", "WORLD_SIZE"},
                                   RankNames{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                   RankNames{"PMI_RANK", "PMI_SIZE"},
                                   RankNames{"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
                                   RankNames{"HOROVOD_RANK", "HOROVOD_SIZE"},
                                   RankNames{"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"},
                                   RankNames{"FLUX_TASK_RANK", "FLUX_JOB_SIZE"},
                                   RankNames{"SLURM_PROCID", "SLURM_NTASKS"}};

constexpr std::array<std::string_view, 27> kShownPrefixes = {
    "NCCL_", "GLOO_",     "TORCH_", "TORCHELASTIC_", "PYTORCH_", "OMP_",   "MKL_",
    "KMP_",  "GOMP_",     "CUDA_",  "CUBLAS_",       "CUDNN_",   "HIP_",   "ROCR_",
    "TF_",   "XLA_",      "JAX_",   "SLURM_",        "OMPI_",    "PMI_",   "PMIX_",
    "PET_",  "OPENBLAS_", "UCX_",   "FI_",           "HOROVOD_", "MASTER_"};
constexpr std::array<std::string_view, 27> kShownNames = {"RANK",
                                                          "WORLD_SIZE",
                                                          "LOCAL_RANK",
                                                          "LOCAL_WORLD_SIZE",
                                                          "GROUP_RANK",
                                                          "GROUP_WORLD_SIZE",
                                                          "ROLE_RANK",
                                                          "ROLE_WORLD_SIZE",
                                                          "NODE_RANK",
                                                          "NNODES",
                                                          "NPROC_PER_NODE",
                                                          "PYTHONHASHSEED",
                                                          "PYTHONPATH",
                                                          "LD_LIBRARY_PATH",
                                                          "LD_PRELOAD",
                                                          "VIRTUAL_ENV",
                                                          "CONDA_PREFIX",
                                                          "MALLOC_ARENA_MAX",
                                                          "NUMEXPR_NUM_THREADS",
                                                          "TZ",
                                                          "HOSTNAME",
                                                          "MV2_COMM_WORLD_RANK",
                                                          "MV2_COMM_WORLD_SIZE",
                                                          "JSM_NAMESPACE_RANK",
                                                          "JSM_NAMESPACE_SIZE",
                                                          "FLUX_TASK_RANK",
                                                          "FLUX_JOB_SIZE"};
constexpr std::array<std::string_view, 9> kSecretParts = {
    "KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH", "COOKIE", "PRIVATE", "JWT"};

std::map<std::string, std::string> texts_of(const Json& json, const char* key) {
  std::map<std::string, std::string> texts;
  const auto found = json.find(key);
  if (found == json.end() || !found->is_object()) return texts;
  for (const auto& [name, value] : found->items()) {
    if (value.is_string()) texts[name] = value.get<std::string>();
  }
  return texts;
}

std::vector<std::string> list_of(const Json& json) {
  std::vector<std::string> texts;
  if (!json.is_array()) return texts;
  for (const Json& item : json) {
    if (item.is_string()) texts.push_back(item.get<std::string>());
  }
  return texts;
}

const Json& member(const Json& json, const char* key) {
  static const Json kNone = nullptr;
  const auto found = json.is_object() ? json.find(key) : json.end();
  return found == json.end() ? kNone : *found;
}

}  // namespace

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

bool may_show(std::string_view variable) {
  // PMIX_SECURITY_MODE and the like hold no secret, but none of them is missed either.
  const bool is_secret = std::any_of(kSecretParts.begin(), kSecretParts.end(), [&](auto part) {
    return variable.find(part) != std::string_view::npos;
  });
  if (is_secret) return false;
  return std::find(kShownNames.begin(), kShownNames.end(), variable) != kShownNames.end() ||
         std::any_of(kShownPrefixes.begin(), kShownPrefixes.end(),
                     [&](auto prefix) { return variable.starts_with(prefix); });
}

bool is_loopback(const std::string& address) {
  return address == "localhost" || address.starts_with("127.") || address == "::1" ||
         address == "localhost.localdomain" || address == "ip6-localhost";
}

const std::string* Setting::variable(const std::string& variable_name) const {
  const auto found = variables.find(variable_name);
  return found == variables.end() ? nullptr : &found->second;
}

std::optional<int64_t> Setting::number(const std::string& variable_name) const {
  const std::string* text = variable(variable_name);
  return text == nullptr ? std::nullopt : whole_number(*text);
}

std::optional<int64_t> Setting::rank() const {
  for (const RankNames& names : kRankNames) {
    if (const auto rank = number(names.rank); rank && variable(names.world_size)) return rank;
  }
  return std::nullopt;
}

std::optional<int64_t> Setting::world_size() const {
  for (const RankNames& names : kRankNames) {
    if (const auto size = number(names.world_size); size && variable(names.rank)) return size;
  }
  return std::nullopt;
}

Json Setting::to_json() const {
  Json sources = Json::array();
  for (const Assignment& assignment : assignments) {
    sources.push_back(
        {{"line", assignment.line}, {"name", assignment.name}, {"value", assignment.value}});
  }
  return {{"name", name},
          {"host", host},
          {"pid", pid},
          {"ancestors", ancestors},
          {"variables", variables},
          {"digests", digests},
          {"launch", launch},
          {"limits", limits},
          {"script", script},
          {"assignments", std::move(sources)}};
}

Setting Setting::from_json(const Json& json) {
  Setting setting;
  setting.name = string_or(json, "name", "");
  setting.host = string_or(json, "host", "");
  setting.pid = static_cast<int32_t>(integer_or(json, "pid", 0));
  for (const Json& pid : member(json, "ancestors")) {
    if (pid.is_number_integer()) setting.ancestors.push_back(pid.get<int32_t>());
  }
  setting.variables = texts_of(json, "variables");
  setting.digests = texts_of(json, "digests");
  setting.launch = list_of(member(json, "launch"));
  for (const auto& [name, value] : member(json, "limits").items()) {
    if (value.is_number()) setting.limits[name] = value.get<double>();
  }
  setting.script = string_or(json, "script", "");
  for (const Json& source : member(json, "assignments")) {
    setting.assignments.push_back({static_cast<int32_t>(integer_or(source, "line", 0)),
                                   string_or(source, "name", ""), string_or(source, "value", "")});
  }
  return setting;
}

const NetworkInterface* HostFacts::interface(const std::string& interface_name) const {
  for (const NetworkInterface& known : interfaces) {
    if (known.name == interface_name) return &known;
  }
  return nullptr;
}

Json HostFacts::to_json() const {
  Json nets = Json::array();
  for (const NetworkInterface& net : interfaces) {
    nets.push_back({{"name", net.name}, {"addresses", net.addresses}, {"mtu", net.mtu}});
  }
  Json ports = Json::object();
  for (const auto& [port, listener] : listeners) {
    ports[std::to_string(port)] = {{"pid", listener.pid}, {"command", listener.command}};
  }
  Json json = {{"host", host},
               {"cores", cores},
               {"devices", nullptr},
               {"interfaces", std::move(nets)},
               {"names", names},
               {"listeners", std::move(ports)},
               {"shared_memory_bytes", nullptr},
               {"clock_offset_ms", nullptr},
               {"has_infiniband", has_infiniband}};
  if (devices) json["devices"] = *devices;
  if (shared_memory_bytes) json["shared_memory_bytes"] = *shared_memory_bytes;
  if (clock_offset_ms) json["clock_offset_ms"] = *clock_offset_ms;
  return json;
}

HostFacts HostFacts::from_json(const Json& json) {
  HostFacts facts;
  facts.host = string_or(json, "host", "");
  facts.cores = static_cast<int32_t>(integer_or(json, "cores", 0));
  facts.has_infiniband = bool_or(json, "has_infiniband", false);
  if (const Json& devices = member(json, "devices"); devices.is_number_integer()) {
    facts.devices = devices.get<int32_t>();
  }
  if (const Json& bytes = member(json, "shared_memory_bytes"); bytes.is_number_integer()) {
    facts.shared_memory_bytes = bytes.get<uint64_t>();
  }
  if (const Json& offset = member(json, "clock_offset_ms"); offset.is_number()) {
    facts.clock_offset_ms = offset.get<double>();
  }
  for (const Json& net : member(json, "interfaces")) {
    facts.interfaces.push_back({string_or(net, "name", ""), list_of(member(net, "addresses")),
                                static_cast<int32_t>(integer_or(net, "mtu", 0))});
  }
  for (const auto& [name, addresses] : member(json, "names").items()) {
    facts.names[name] = list_of(addresses);
  }
  for (const auto& [text, listener] : member(json, "listeners").items()) {
    const auto port = whole_number(text);
    if (!port) continue;
    facts.listeners[static_cast<int32_t>(*port)] = {
        static_cast<int32_t>(integer_or(listener, "pid", 0)), string_or(listener, "command", "")};
  }
  return facts;
}

const HostFacts* JobSettings::facts(const std::string& host) const {
  for (const HostFacts& known : hosts) {
    if (known.host == host) return &known;
  }
  return nullptr;
}

bool JobSettings::spans_hosts() const {
  for (const Setting& process : processes) {
    if (!process.host.empty() && process.host != processes.front().host) return true;
    for (const char* nodes : {"NNODES", "SLURM_NNODES", "GROUP_WORLD_SIZE"}) {
      if (process.number(nodes).value_or(1) > 1) return true;
    }
    const auto here = process.number("LOCAL_WORLD_SIZE");
    if (here && process.world_size().value_or(*here) > *here) return true;
  }
  return false;
}

}  // namespace paramedic::cluster
