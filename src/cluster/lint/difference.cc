#include "cluster/lint/difference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

namespace paramedic::cluster {
namespace {

using rules::Severity;

constexpr size_t kKeysMax = 20'000;
constexpr size_t kDigitsALine = 4;
constexpr size_t kNamesShown = 8;

// Who differs in these cannot compute the same, or cannot talk to the others.
constexpr std::array<std::string_view, 6> kVersions = {"python", "torch", "cuda",
                                                       "nccl",   "numpy", "tensorflow"};

// Different on each rank by their meaning, or the matter of other rules.
constexpr std::array<std::string_view, 24> kOwn = {"RANK",
                                                   "LOCAL_RANK",
                                                   "GROUP_RANK",
                                                   "ROLE_RANK",
                                                   "NODE_RANK",
                                                   "WORLD_SIZE",
                                                   "MASTER_ADDR",
                                                   "MASTER_PORT",
                                                   "TF_CONFIG",
                                                   "HOSTNAME",
                                                   "TORCHELASTIC_ERROR_FILE",
                                                   "CUDA_VISIBLE_DEVICES",
                                                   "HIP_VISIBLE_DEVICES",
                                                   "ROCR_VISIBLE_DEVICES",
                                                   "NCCL_DEBUG",
                                                   "NCCL_DEBUG_FILE",
                                                   "KMP_AFFINITY",
                                                   "GOMP_CPU_AFFINITY",
                                                   "OMP_PLACES",
                                                   "LOCAL_WORLD_SIZE",
                                                   "HOROVOD_RANK",
                                                   "HOROVOD_LOCAL_RANK",
                                                   "HOROVOD_CROSS_RANK",
                                                   "HOROVOD_HOSTNAME"};
constexpr std::array<std::string_view, 8> kOwnPrefixes = {"SLURM_", "OMPI_", "PMI_", "PMIX_",
                                                          "PET_",   "MV2_",  "JSM_", "FLUX_"};
// Parts of the names of others that a start script gives to each rank, or that mean nothing.
constexpr std::array<std::string_view, 22> kOwnParts = {
    "RANK", "LOG",    "HOST",      "NODE", "PORT", "NAME",  "FILE",  "DEVICE",
    "GPU",  "WORKER", "INDEX",     "TMP",  "TEMP", "PWD",   "SHLVL", "SEED",
    "_ID",  "TTY",    "PARAMEDIC", "SSH",  "TERM", "WINDOW"};

template <typename List>
bool any_of(const List& list, std::string_view name,
            bool (*fits)(std::string_view, std::string_view)) {
  return std::any_of(list.begin(), list.end(), [&](auto part) { return fits(name, part); });
}
bool is_same(std::string_view name, std::string_view part) { return name == part; }
bool begins(std::string_view name, std::string_view part) { return name.starts_with(part); }
bool holds(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

constexpr std::string_view kVariable = "variable/";
constexpr std::string_view kOther = "other/";  // a variable whose value may not be shown

bool is_left_out(const std::string& key) {
  const std::string_view name = std::string_view(key).substr(key.find('/') + 1);
  if (key.starts_with(kVariable)) {
    return any_of(kOwn, name, is_same) || any_of(kOwnPrefixes, name, begins);
  }
  return key.starts_with(kOther) && (name == "_" || any_of(kOwnParts, name, holds));
}

// One host has its own names for interfaces.
bool is_of_host(const std::string& key) {
  return key.ends_with("_SOCKET_IFNAME") || key.ends_with("_HCA") || key.starts_with("host/");
}

std::string value_in(const Subject& subject, const std::string& key) {
  constexpr std::string_view kModule = "module/";
  if (key.starts_with(kModule)) {
    const auto found = subject.modules.find(key.substr(kModule.size()));
    return found == subject.modules.end() ? "" : found->second.digest;
  }
  const auto found = subject.values.find(key);
  return found == subject.values.end() ? "" : found->second;
}

Severity severity_of(const Difference& difference) {
  const std::string& key = difference.key;
  if (any_of(kVersions, key, is_same) || key.starts_with("module/")) return Severity::kError;
  if (key.starts_with("package/") || key.starts_with(kVariable)) return Severity::kWarning;
  // Rank 0 is often the one that logs, and has variables for it.
  const auto& first = difference.groups.front().who;
  const bool is_rank_0 = first.size() == 1 && first.front()->rank == 0;
  if (key.starts_with(kOther) && difference.has_majority && !is_rank_0) return Severity::kWarning;
  return Severity::kInfo;
}

// Where the minority's file first differs from the majority's.
std::optional<rules::Where> first_line(const Difference& difference) {
  const std::string name = difference.key.substr(difference.key.find('/') + 1);
  const auto module_of = [&](const Difference::Group& group) -> const Module* {
    const auto found = group.who.front()->modules.find(name);
    return found == group.who.front()->modules.end() ? nullptr : &found->second;
  };
  const Module* odd = module_of(difference.groups.front());
  const Module* common = module_of(difference.groups.back());
  if (odd == nullptr || common == nullptr || odd->file.empty()) return std::nullopt;
  const auto [a, b] = std::mismatch(odd->lines.begin(), odd->lines.end(), common->lines.begin(),
                                    common->lines.end());
  const auto at = static_cast<size_t>(a - odd->lines.begin()) / kDigitsALine;
  return rules::Where{odd->file, odd->lines.empty() ? 1 : static_cast<int32_t>(at) + 1, ""};
}

std::optional<Difference> compare(const std::string& key, const std::vector<Subject>& subjects) {
  std::map<std::string, std::vector<const Subject*>> by_value;
  for (const Subject& subject : subjects) {
    std::string value = value_in(subject, key);
    // Facts come later than settings: who has told none yet does not differ.
    const bool is_fact = !key.starts_with(kVariable) && !key.starts_with(kOther);
    if (is_fact && value.empty()) continue;
    by_value[std::move(value)].push_back(&subject);
  }
  if (by_value.size() < 2) return std::nullopt;
  Difference difference;
  difference.key = key;
  size_t total = 0;
  for (auto& [value, who] : by_value) {
    total += who.size();
    difference.groups.push_back({value, std::move(who)});
  }
  // As many values as processes: each has its own, and that is meant.
  if (total > 2 && difference.groups.size() == total) return std::nullopt;
  std::stable_sort(difference.groups.begin(), difference.groups.end(),
                   [](const auto& a, const auto& b) { return a.who.size() < b.who.size(); });
  difference.has_majority = 2 * difference.groups.back().who.size() > total;
  difference.severity = severity_of(difference);
  if (key.starts_with("module/")) difference.where = first_line(difference);
  return difference;
}

std::string who_text(const std::vector<const Subject*>& who) {
  std::vector<std::string> names;
  bool all_ranks = true;
  for (const Subject* subject : who) all_ranks = all_ranks && subject->rank.has_value();
  for (const Subject* subject : who) {
    if (names.size() == kNamesShown) {
      names.emplace_back("…");
      break;
    }
    names.push_back(all_ranks ? std::to_string(*subject->rank) : subject->name);
  }
  const char* prefix = !all_ranks ? "" : who.size() == 1 ? "rank " : "ranks ";
  return fmt::format("{}{}", prefix, fmt::join(names, ", "));
}

}  // namespace

void add_setting(const Setting& setting, Subject& subject) {
  subject.name = setting.name;
  if (const auto rank = setting.rank()) subject.rank = static_cast<int32_t>(*rank);
  subject.host = setting.host;
  for (const auto& [name, value] : setting.variables) {
    subject.values[std::string(kVariable) + name] = value;
  }
  for (const auto& [name, digest] : setting.digests) {
    subject.values[std::string(kOther) + name] = digest;
  }
  for (const auto& [name, value] : setting.limits) {
    subject.values["limit/" + name] = fmt::format("{:.0f}", value);
  }
}

void add_facts(const Json& facts, Subject& subject) {
  if (!facts.is_object()) return;
  if (subject.host.empty()) subject.host = string_or(facts, "host", "");
  const auto values = facts.find("values");
  if (values != facts.end() && values->is_object()) {
    for (const auto& [key, value] : values->items()) {
      if (value.is_string()) subject.values[key] = value.get<std::string>();
    }
  }
  const auto modules = facts.find("modules");
  if (modules == facts.end() || !modules->is_object()) return;
  for (const auto& [name, module] : modules->items()) {
    subject.modules[name] = {string_or(module, "file", ""), string_or(module, "digest", ""),
                             string_or(module, "lines", "")};
  }
}

std::vector<Difference> differences(const std::vector<Subject>& subjects) {
  std::set<std::string> keys;
  bool one_host = true;
  for (const Subject& subject : subjects) {
    one_host = one_host && subject.host == subjects.front().host;
    for (const auto& [key, value] : subject.values) keys.insert(key);
    for (const auto& [name, module] : subject.modules) keys.insert("module/" + name);
    if (keys.size() > kKeysMax) break;
  }
  std::vector<Difference> all;
  for (const std::string& key : keys) {
    if (is_left_out(key) || (is_of_host(key) && !one_host)) continue;
    if (auto difference = compare(key, subjects)) all.push_back(std::move(*difference));
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.severity > b.severity; });
  return all;
}

std::string difference_text(const Difference& difference) {
  const std::string& key = difference.key;
  const bool is_shown = !key.starts_with(kOther) && !key.starts_with("module/");
  std::vector<std::string> parts;
  for (const Difference::Group& group : difference.groups) {
    const bool is_last = &group == &difference.groups.back();
    std::string value = group.value.empty() ? "not set" : group.value;
    if (!is_shown && !group.value.empty()) value = is_last ? "the same" : "another one";
    parts.push_back(fmt::format("{} on {}", value, who_text(group.who)));
  }
  return fmt::format("{}: {}", key.substr(key.starts_with(kVariable) ? kVariable.size() : 0),
                     fmt::join(parts, "; "));
}

}  // namespace paramedic::cluster
