#include "cluster/lint/settings_book.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "cluster/lint/read_setting.h"
#include "cluster/lint/tf_config.h"

namespace paramedic::cluster {
namespace {

// A run that starts more processes than this is judged by the first ones.
constexpr size_t kProcessesMax = 20'000;

std::string meeting_point(const Setting& setting) {
  const auto text = [&](const char* name) {
    const std::string* value = setting.variable(name);
    return value == nullptr ? std::string() : *value;
  };
  return text("TORCHELASTIC_RUN_ID") + "|" + text("MASTER_ADDR") + "|" + text("MASTER_PORT");
}

// Each rank from 0 to the common world size the same number of times: that number, else 0.
size_t times_complete(const std::vector<Setting>& group) {
  std::map<int64_t, size_t> counts;
  for (const Setting& setting : group) {
    if (setting.world_size() != group.front().world_size()) return 0;
    ++counts[setting.rank().value_or(-1)];
  }
  const auto size = static_cast<size_t>(group.front().world_size().value_or(0));
  if (counts.size() != size || counts.begin()->first != 0 ||
      counts.rbegin()->first != static_cast<int64_t>(size) - 1) {
    return 0;
  }
  const size_t times = counts.begin()->second;
  const bool even = std::all_of(counts.begin(), counts.end(),
                                [&](const auto& entry) { return entry.second == times; });
  return even ? times : 0;
}

// The i-th process of each rank belongs to the i-th job.
void deal(std::vector<Setting> group, size_t times, std::vector<std::vector<Setting>>& jobs) {
  std::map<int64_t, size_t> seen;
  const size_t first = jobs.size();
  jobs.resize(first + times);
  for (Setting& setting : group) {
    const size_t job = seen[setting.rank().value_or(-1)]++;
    jobs[first + job].push_back(std::move(setting));
  }
}

// Sorted by start. Who starts after all before him have ended begins a new job.
std::vector<std::vector<Setting>> split_by_time(std::vector<Setting> processes) {
  std::vector<std::vector<Setting>> parts;
  int64_t last_ns = 0;
  bool runs_on = false;
  for (Setting& setting : processes) {
    if (parts.empty() || (!runs_on && setting.first_ns > last_ns)) {
      parts.emplace_back();
      last_ns = 0;
      runs_on = false;
    }
    runs_on = runs_on || setting.last_ns == 0;
    last_ns = std::max(last_ns, setting.last_ns);
    parts.back().push_back(std::move(setting));
  }
  return parts;
}

// Groups that were started in turns and are not complete yet look like one whose ranks disagree
// about the meeting point, but for this.
bool share_a_rank(const std::vector<std::vector<Setting>>& groups) {
  std::set<int64_t> before;
  for (const auto& group : groups) {
    std::set<int64_t> ranks;
    for (const Setting& setting : group) ranks.insert(setting.rank().value_or(-1));
    const auto shared = [&](int64_t rank) { return before.contains(rank); };
    if (std::any_of(ranks.begin(), ranks.end(), shared)) return true;
    before.merge(ranks);
  }
  return false;
}

void split_part(std::vector<Setting> part, std::vector<std::vector<Setting>>& jobs) {
  std::map<std::string, std::vector<Setting>> groups;
  for (Setting& setting : part) groups[meeting_point(setting)].push_back(std::move(setting));
  std::vector<std::vector<Setting>> rest;
  for (auto& [point, group] : groups) {
    if (const size_t times = times_complete(group); times > 0) {
      deal(std::move(group), times, jobs);
    } else {
      rest.push_back(std::move(group));
    }
  }
  if (share_a_rank(rest)) {
    std::move(rest.begin(), rest.end(), std::back_inserter(jobs));
    return;
  }
  std::vector<Setting> one;
  for (auto& group : rest) std::move(group.begin(), group.end(), std::back_inserter(one));
  if (!one.empty()) jobs.push_back(std::move(one));
}

bool is_task(const Setting& setting) { return setting.variable("TF_CONFIG") != nullptr; }

}  // namespace

std::vector<std::vector<Setting>> split_jobs(std::vector<Setting> processes) {
  std::stable_sort(processes.begin(), processes.end(),
                   [](const auto& a, const auto& b) { return a.first_ns < b.first_ns; });
  std::vector<std::vector<Setting>> jobs;
  for (auto& part : split_by_time(std::move(processes))) {
    std::vector<Setting> ranks;
    std::vector<Setting> tasks;
    for (Setting& setting : part) {
      (setting.rank() ? ranks : tasks).push_back(std::move(setting));
    }
    if (!ranks.empty()) split_part(std::move(ranks), jobs);
    if (!tasks.empty()) jobs.push_back(std::move(tasks));
  }
  return jobs;
}

bool SettingsBook::take(const store::EventRow& row) {
  const bool is_ours = row.kind == "environment" || row.kind == "process_ended" ||
                       row.kind == "host" || row.kind == "rendezvous";
  if (!is_ours) return false;
  const auto json = parse_json(row.json, "an event");
  if (!json.ok()) return false;
  ++version_;
  if (row.kind == "environment") {
    take_environment(row, *json);
  } else if (row.kind == "rendezvous") {
    take_rendezvous(row, *json);
  } else if (row.kind == "host") {
    take_host(row, HostFacts::from_json(*json));
  } else if (const auto known = processes_.find(row.origin.pid); known != processes_.end()) {
    known->second.last_ns = row.origin.time_ns;
  }
  return true;
}

void SettingsBook::take_host(const store::EventRow& row, HostFacts facts) {
  HostFacts& known = hosts_[facts.host];
  for (auto& [port, listener] : facts.listeners) {
    const auto before = known.listeners.find(port);
    const bool is_same = before != known.listeners.end() && before->second.pid == listener.pid;
    listener.since_ns = is_same ? before->second.since_ns : row.origin.time_ns;
  }
  known = std::move(facts);
}

void SettingsBook::take_environment(const store::EventRow& row, const Json& json) {
  if (processes_.size() >= kProcessesMax) return;
  Setting setting = Setting::from_json(json);
  setting.pid = row.origin.pid;
  setting.first_ns = row.origin.time_ns;
  newest_ns_ = std::max(newest_ns_, row.origin.time_ns);
  // What the process told of itself meanwhile is newer than what it was started with.
  if (const auto known = processes_.find(setting.pid); known != processes_.end()) {
    for (const auto& [name, value] : known->second.variables) setting.variables[name] = value;
    name_setting(setting);
  }
  processes_[setting.pid] = std::move(setting);
}

void SettingsBook::take_rendezvous(const store::EventRow& row, const Json& json) {
  if (rendezvous_.size() >= kProcessesMax) return;
  Rendezvous& told = rendezvous_[row.origin.pid];
  const std::string state = string_or(json, "state", "");
  if (state == "begun") {
    told = Rendezvous();
    told.begun_ns = row.origin.time_ns;
  }
  if (state == "done") told.done_ns = row.origin.time_ns;
  told.failed = state == "failed";
  told.error = string_or(json, "error", told.error);
  told.rank = static_cast<int32_t>(integer_or(json, "rank", told.rank));
  told.world_size = static_cast<int32_t>(integer_or(json, "world_size", told.world_size));
  told.init_method = string_or(json, "init_method", told.init_method);
  const std::string address = string_or(json, "master_addr", "");
  std::string port = string_or(json, "master_port", "");
  if (port.empty() && integer_or(json, "master_port", 0) != 0) {
    port = std::to_string(integer_or(json, "master_port", 0));
  }
  if (!address.empty() && !port.empty()) told.endpoint = address + ":" + port;
  const auto where = json.find("where");
  if (where != json.end() && where->is_object() && !string_or(*where, "file", "").empty()) {
    told.where = rules::Where{string_or(*where, "file", ""),
                              static_cast<int32_t>(integer_or(*where, "line", 0)),
                              string_or(*where, "function", "")};
  }
  if (state != "begun" || processes_.size() >= kProcessesMax) return;
  // What Python set for itself, where the process was started without it (spawn, os.environ).
  Setting& setting = processes_[row.origin.pid];
  if (setting.first_ns == 0) {
    setting.pid = row.origin.pid;
    setting.first_ns = row.origin.time_ns;
    newest_ns_ = std::max(newest_ns_, row.origin.time_ns);
  }
  if (told.rank >= 0) setting.variables["RANK"] = std::to_string(told.rank);
  if (told.world_size > 0) setting.variables["WORLD_SIZE"] = std::to_string(told.world_size);
  if (!address.empty()) setting.variables["MASTER_ADDR"] = address;
  if (!port.empty()) setting.variables["MASTER_PORT"] = port;
  if (const std::string config = string_or(json, "tf_config", ""); !config.empty()) {
    setting.variables["TF_CONFIG"] = config;
  }
  name_setting(setting);
}

const Rendezvous* SettingsBook::rendezvous(int32_t pid) const {
  const auto found = rendezvous_.find(pid);
  return found == rendezvous_.end() ? nullptr : &found->second;
}

std::vector<JobSettings> SettingsBook::jobs() const {
  std::vector<Setting> ranks;
  std::vector<Setting> launchers;
  for (const auto& [pid, setting] : processes_) {
    if (setting.is_launcher()) {
      launchers.push_back(setting);
    } else if (setting.rank() || is_task(setting)) {
      ranks.push_back(setting);
    }
  }
  std::vector<HostFacts> hosts;
  for (const auto& [name, facts] : hosts_) hosts.push_back(facts);
  std::vector<JobSettings> jobs;
  for (auto& group : split_jobs(std::move(ranks))) {
    const bool is_single =
        group.size() == 1 && !is_task(group.front()) && group.front().world_size().value_or(1) < 2;
    if (!is_single) jobs.push_back({std::move(group), hosts});
  }
  if (!launchers.empty()) jobs.push_back({std::move(launchers), hosts});
  return jobs;
}

}  // namespace paramedic::cluster
