// TF_CONFIG of TensorFlow's MultiWorkerMirrored and ParameterServer strategies.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "cluster/lint/lint.h"
#include "cluster/lint/tf_config.h"

namespace paramedic::cluster {
namespace {

using rules::Severity;

constexpr int64_t kPortMax = 65535;

struct Task {
  const Setting* process;
  TfConfig config;
};

// Those whose TF_CONFIG can be read.
std::vector<Task> tasks_of(const JobSettings& job) {
  std::vector<Task> tasks;
  for (const Setting& process : job.processes) {
    const std::string* text = process.variable("TF_CONFIG");
    if (text == nullptr || text->empty()) continue;
    Task task{&process, parse_tf_config(*text)};
    if (task.config.error.empty() && !task.config.cluster.empty()) tasks.push_back(std::move(task));
  }
  return tasks;
}

// Each cluster that the tasks name, once.
std::vector<const Task*> distinct(const std::vector<Task>& tasks) {
  std::vector<const Task*> some;
  for (const Task& task : tasks) {
    const bool known = std::any_of(some.begin(), some.end(), [&](const Task* other) {
      return other->config.cluster == task.config.cluster;
    });
    if (!known) some.push_back(&task);
  }
  return some;
}

Complaint about(const Task* task, std::string message) {
  return {task == nullptr ? nullptr : task->process, "TF_CONFIG", std::move(message), {}};
}

void tf_config_unreadable(const JobSettings& job, const Complain& complain) {
  for (const Setting& process : job.processes) {
    const std::string* text = process.variable("TF_CONFIG");
    if (text == nullptr || text->empty()) continue;
    const TfConfig config = parse_tf_config(*text);
    if (config.error.empty()) continue;
    complain({&process,
              "TF_CONFIG",
              fmt::format("TF_CONFIG of {} cannot be read: {}", process.name, config.error),
              {}});
  }
}

void tf_task_unknown(const JobSettings& job, const Complain& complain) {
  for (const Task& task : tasks_of(job)) {
    const std::string& type = task.config.type;
    if (type == "evaluator" || task.config.cluster.contains(type)) continue;
    std::vector<std::string> names;
    for (const auto& [name, addresses] : task.config.cluster) names.push_back(name);
    complain(about(&task, fmt::format("TF_CONFIG: the task is a {}, but the cluster has only {}",
                                      type, fmt::join(names, ", "))));
  }
}

void tf_index_out_of_range(const JobSettings& job, const Complain& complain) {
  for (const Task& task : tasks_of(job)) {
    const auto addresses = task.config.cluster.find(task.config.type);
    if (addresses == task.config.cluster.end()) continue;
    const auto size = static_cast<int64_t>(addresses->second.size());
    if (task.config.index < size) continue;
    complain(about(&task, fmt::format("TF_CONFIG: the task has index {}, but the cluster has {} "
                                      "{}s: indices go from 0 to {}",
                                      task.config.index, size, task.config.type, size - 1)));
  }
}

void tf_task_duplicate(const JobSettings& job, const Complain& complain) {
  std::map<std::string, const Setting*> seen;
  const auto tasks = tasks_of(job);
  for (const Task& task : tasks) {
    const auto [known, is_new] = seen.try_emplace(task.config.task(), task.process);
    if (is_new) continue;
    complain(about(&task, fmt::format("TF_CONFIG: two processes are {}", task.config.task())));
  }
}

// Somebody listed who has not come is waited for without end.
void tf_task_missing(const JobSettings& job, const Complain& complain) {
  const auto tasks = tasks_of(job);
  if (tasks.size() < 2) return;
  std::set<std::string> present;
  for (const Task& task : tasks) present.insert(task.config.task());
  for (const auto& [type, addresses] : tasks.front().config.cluster) {
    for (size_t i = 0; i < addresses.size(); ++i) {
      if (type == "evaluator" || present.contains(fmt::format("{}:{}", type, i))) continue;
      complain(about(nullptr, fmt::format("TF_CONFIG: the cluster lists {}:{} ({}), and no process "
                                          "is that task",
                                          type, i, addresses[i])));
    }
  }
}

void tf_address_duplicate(const JobSettings& job, const Complain& complain) {
  const auto tasks = tasks_of(job);
  for (const Task* task : distinct(tasks)) {
    std::map<std::string, std::string> seen;
    for (const auto& [type, addresses] : task->config.cluster) {
      for (size_t i = 0; i < addresses.size(); ++i) {
        const std::string name = fmt::format("{}:{}", type, i);
        const auto [known, is_new] = seen.try_emplace(addresses[i], name);
        if (is_new) continue;
        complain(about(nullptr, fmt::format("TF_CONFIG: {} and {} have the same address {}",
                                            known->second, name, addresses[i])));
      }
    }
  }
}

void tf_port_invalid(const JobSettings& job, const Complain& complain) {
  const auto tasks = tasks_of(job);
  for (const Task* task : distinct(tasks)) {
    for (const auto& [type, addresses] : task->config.cluster) {
      for (const std::string& address : addresses) {
        const size_t colon = address.find_last_of(':');
        const auto port =
            colon == std::string::npos ? std::nullopt : whole_number(address.substr(colon + 1));
        if (port && *port > 0 && *port <= kPortMax) continue;
        complain(about(nullptr, fmt::format("TF_CONFIG: {} '{}' has no port from 1 to {}", type,
                                            address, kPortMax)));
      }
    }
  }
}

void tf_chief_wrong(const JobSettings& job, const Complain& complain) {
  const auto tasks = tasks_of(job);
  for (const Task* task : distinct(tasks)) {
    const auto chief = task->config.cluster.find("chief");
    const bool has_servers = task->config.cluster.contains("ps");
    const bool has_workers = task->config.cluster.contains("worker");
    if (chief == task->config.cluster.end()) {
      if (!has_servers && has_workers) continue;  // worker:0 is the chief then
      complain(about(nullptr, has_servers
                                  ? "TF_CONFIG: a cluster with parameter servers has no chief"
                                  : "TF_CONFIG: the cluster has neither a chief nor a worker"));
    } else if (chief->second.size() != 1) {
      complain(about(nullptr, fmt::format("TF_CONFIG: the cluster has {} chiefs, where there must "
                                          "be one",
                                          chief->second.size())));
    }
  }
}

void tf_chief_and_worker_0(const JobSettings& job, const Complain& complain) {
  const auto tasks = tasks_of(job);
  for (const Task* task : distinct(tasks)) {
    const auto& cluster = task->config.cluster;
    if (!cluster.contains("chief") || !cluster.contains("worker") || cluster.contains("ps")) {
      continue;
    }
    complain(about(nullptr,
                   "TF_CONFIG: with a chief in the cluster, worker:0 is an ordinary "
                   "worker: only the chief saves checkpoints and summaries"));
  }
}

void tf_evaluator_in_cluster(const JobSettings& job, const Complain& complain) {
  const auto tasks = tasks_of(job);
  for (const Task* task : distinct(tasks)) {
    if (!task->config.cluster.contains("evaluator")) continue;
    complain(about(nullptr,
                   "TF_CONFIG: the evaluator is listed in the cluster, so that the "
                   "others wait for it"));
  }
}

void tf_cluster_differs(const JobSettings& job, const Complain& complain) {
  const auto tasks = tasks_of(job);
  if (distinct(tasks).size() < 2) return;
  std::vector<const Setting*> processes;
  for (const Task& task : tasks) processes.push_back(task.process);
  const Odd odd = odd_ones(processes, [](const Setting& process) {
    return to_text(Json(parse_tf_config(value_or_empty(process, "TF_CONFIG")).cluster));
  });
  for (const Task& task : tasks) {
    const auto& minority = odd.processes;
    if (std::find(minority.begin(), minority.end(), task.process) == minority.end()) continue;
    complain(about(&task, fmt::format("TF_CONFIG of {} lists another cluster than that of the "
                                      "others",
                                      task.config.task())));
  }
  if (odd.processes.empty()) {
    complain(about(nullptr, "TF_CONFIG: the tasks list different clusters"));
  }
}

void tf_loopback_between_hosts(const JobSettings& job, const Complain& complain) {
  const auto tasks = tasks_of(job);
  std::set<std::string> hosts;
  for (const Task& task : tasks) {
    if (!task.process->host.empty()) hosts.insert(task.process->host);
  }
  for (const Task* task : distinct(tasks)) {
    std::vector<std::string> local;
    size_t remote = 0;
    for (const auto& [type, addresses] : task->config.cluster) {
      for (const std::string& address : addresses) {
        const bool loops = is_loopback(address.substr(0, address.find_last_of(':')));
        if (loops) local.push_back(address);
        remote += loops ? 0 : 1;
      }
    }
    if (local.empty() || (hosts.size() < 2 && remote == 0)) continue;
    complain(about(nullptr, fmt::format("TF_CONFIG: the cluster lists the loopback address {}, but "
                                        "its tasks are on several hosts",
                                        fmt::join(local, ", "))));
  }
}

}  // namespace

std::vector<LintRule> tf_config_rules() {
  constexpr auto kSure = LintGrade::kSure;
  constexpr const char* kConfig = "cluster_config";
  return {
      {"tf_config_unreadable", kConfig, Severity::kError, kSure, "TF_CONFIG can be read",
       "set it by json.dumps({\"cluster\": {\"worker\": [\"host:port\", …]}, \"task\": {\"type\": "
       "\"worker\", \"index\": 0}})",
       tf_config_unreadable},
      {"tf_task_unknown", kConfig, Severity::kError, kSure, "the task's type is in the cluster",
       "use one of the cluster's names as the type", tf_task_unknown},
      {"tf_index_out_of_range", kConfig, Severity::kError, kSure,
       "the task's index is in the cluster", "indices count from 0", tf_index_out_of_range},
      {"tf_task_duplicate", kConfig, Severity::kError, kSure, "each task runs once",
       "give every process its own index", tf_task_duplicate},
      {"tf_task_missing", kConfig, Severity::kWarning, LintGrade::kAdvice,
       "every listed task has a process", "start it, or take it out of the cluster",
       tf_task_missing},
      {"tf_address_duplicate", kConfig, Severity::kError, kSure, "each task has its own address",
       "give each task a port of its own", tf_address_duplicate},
      {"tf_port_invalid", kConfig, Severity::kError, kSure, "each address has a port",
       "write host:port with a port from 1024 to 65535", tf_port_invalid},
      {"tf_chief_wrong", kConfig, Severity::kError, kSure, "there is one chief, or worker:0 is it",
       "list one chief, or none with workers only", tf_chief_wrong},
      {"tf_chief_and_worker_0", kConfig, Severity::kInfo, LintGrade::kAdvice,
       "a chief beside worker:0 is meant", "leave the chief out unless it is meant",
       tf_chief_and_worker_0},
      {"tf_evaluator_in_cluster", kConfig, Severity::kError, kSure,
       "the evaluator is not in the cluster",
       "take it out of the cluster: an evaluator works on its own", tf_evaluator_in_cluster},
      {"tf_cluster_differs", kConfig, Severity::kError, kSure, "all tasks list one cluster",
       "give all tasks the same cluster; only task differs", tf_cluster_differs},
      {"tf_loopback_between_hosts", kConfig, Severity::kError, kSure,
       "no loopback address when there are several hosts",
       "list addresses that the other hosts can reach", tf_loopback_between_hosts},
  };
}

}  // namespace paramedic::cluster
