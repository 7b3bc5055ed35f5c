// The variables of NCCL, gloo and PyTorch: set on some ranks only, of older names, in conflict.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "cluster/lint/lint.h"

namespace paramedic::cluster {
namespace {

using rules::Severity;

struct Renamed {
  const char* old_name;
  const char* new_name;
};
// Names that torch 2.2 to 2.9 replaced; it still reads most of them, and warns.
constexpr std::array kRenamed = {
    Renamed{"NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ASYNC_ERROR_HANDLING"},
    Renamed{"NCCL_BLOCKING_WAIT", "TORCH_NCCL_BLOCKING_WAIT"},
    Renamed{"NCCL_DESYNC_DEBUG", "TORCH_NCCL_DESYNC_DEBUG"},
    Renamed{"NCCL_ENABLE_TIMING", "TORCH_NCCL_ENABLE_TIMING"},
    Renamed{"TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_BUFFER_SIZE"},
    Renamed{"TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "TORCH_FR_DUMP_TEMP_FILE"},
    Renamed{"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"},
};

// Per rank by their meaning, or the matter of other rules.
bool may_differ(const std::string& name) {
  static const std::set<std::string> kNames = {"NCCL_DEBUG",          "NCCL_DEBUG_FILE",
                                               "NCCL_COMM_ID",        "NCCL_TOPO_FILE",
                                               "NCCL_TOPO_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE"};
  return kNames.contains(name) || name.ends_with("_SOCKET_IFNAME") || name.ends_with("_HCA");
}

void nccl_on_some_ranks(const JobSettings& job, const Complain& complain) {
  const auto ranks = members_of(job);
  std::set<std::string> names;
  for (const Setting* process : ranks) {
    for (const auto& [name, value] : process->variables) {
      const bool counts = name.starts_with("NCCL_") || name.starts_with("GLOO_") ||
                          name.starts_with("TORCH_NCCL_") || name.starts_with("TORCH_GLOO_");
      if (counts && !may_differ(name)) names.insert(name);
    }
  }
  for (const std::string& name : names) {
    const Odd odd = odd_ones(ranks, [&](const Setting& p) { return value_or_empty(p, name); });
    for (const Setting* process : odd.processes) {
      const std::string value = value_or_empty(*process, name);
      complain({process,
                name,
                fmt::format("{} is {} on {} and {} on the others", name,
                            value.empty() ? "not set" : value, process->name,
                            odd.majority.empty() ? "not set" : odd.majority),
                {}});
    }
  }
}

void nccl_debug_not_on_rank_0(const JobSettings& job, const Complain& complain) {
  const Setting* first = nullptr;
  bool elsewhere = false;
  for (const Setting* process : members_of(job)) {
    const bool is_set = process->variable("NCCL_DEBUG") != nullptr;
    if (process->rank() == 0 && !is_set) first = process;
    elsewhere = elsewhere || (process->rank() != 0 && is_set);
  }
  if (first == nullptr || !elsewhere) return;
  complain({first,
            "NCCL_DEBUG",
            "NCCL_DEBUG is set on other ranks, but not on rank 0, which is "
            "the one that tells most",
            {}});
}

void variable_deprecated(const JobSettings& job, const Complain& complain) {
  for (const Renamed& renamed : kRenamed) {
    for (const Setting& process : job.processes) {
      if (process.variable(renamed.old_name) == nullptr) continue;
      if (process.variable(renamed.new_name) != nullptr) continue;
      complain({nullptr,
                renamed.old_name,
                fmt::format("{} is now called {}", renamed.old_name, renamed.new_name),
                {}});
      break;
    }
  }
}

void flight_recorder_off(const JobSettings& job, const Complain& complain) {
  for (const Setting* process : members_of(job)) {
    for (const char* name : {"TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"}) {
      if (process->number(name) != 0) continue;
      complain({nullptr,
                name,
                fmt::format("{}=0 switches the flight recorder off: after a hang "
                            "nothing tells which rank is missing",
                            name),
                {}});
      return;
    }
  }
}

// The heartbeat's end kills the process, dump or no dump.
void heartbeat_before_dump(const JobSettings& job, const Complain& complain) {
  for (const Setting* process : members_of(job)) {
    const auto heartbeat_s = process->number("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC");
    auto dump_ms = process->number("TORCH_FR_WAIT_TIMEOUT_DUMP_MILSEC");
    if (!dump_ms) dump_ms = process->number("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC");
    if (!heartbeat_s || *heartbeat_s * 1000 > dump_ms.value_or(15'000)) continue;
    complain({process,
              "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC",
              fmt::format("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC={} is not longer than the {} ms that "
                          "the dump of the flight recorder may take",
                          *heartbeat_s, dump_ms.value_or(15'000)),
              {}});
    return;
  }
}

void no_error_handling(const JobSettings& job, const Complain& complain) {
  for (const Setting* process : members_of(job)) {
    for (const char* name : {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING"}) {
      if (process->number(name) != 0 || process->number("TORCH_NCCL_BLOCKING_WAIT") == 1) continue;
      complain({process,
                name,
                fmt::format("{}=0: a collective that cannot end waits for ever", name),
                {}});
      return;
    }
  }
}

void threads_beyond_cores(const JobSettings& job, const Complain& complain) {
  std::map<std::string, int64_t> threads;
  std::map<std::string, int64_t> processes;
  for (const Setting* process : members_of(job)) {
    const auto each = process->number("OMP_NUM_THREADS");
    if (!each || *each < 2) continue;
    threads[process->host] += *each;
    processes[process->host] += 1;
  }
  for (const auto& [host, total] : threads) {
    const HostFacts* facts = job.facts(host);
    if (facts == nullptr || facts->cores < 1 || total <= facts->cores) continue;
    if (processes[host] < 2) continue;
    complain({nullptr,
              "OMP_NUM_THREADS",
              fmt::format("OMP_NUM_THREADS of {} ranks makes {} threads on {} cores",
                          processes[host], total, facts->cores),
              {}});
  }
}

}  // namespace

std::vector<LintRule> variable_rules() {
  constexpr auto kAdvice = LintGrade::kAdvice;
  constexpr const char* kConfig = "cluster_config";
  return {
      {"nccl_on_some_ranks", "environment_difference", Severity::kWarning, LintGrade::kSure,
       "NCCL_* and GLOO_* are the same on all ranks",
       "set it on all ranks or on none: both ends of a connection must agree", nccl_on_some_ranks},
      {"nccl_debug_not_on_rank_0", kConfig, Severity::kWarning, kAdvice,
       "NCCL_DEBUG is set on rank 0 too", "set NCCL_DEBUG on rank 0", nccl_debug_not_on_rank_0},
      {"variable_deprecated", kConfig, Severity::kWarning, kAdvice,
       "no variable has its older name", "use the new name; the old one will not be read for long",
       variable_deprecated},
      {"flight_recorder_off", kConfig, Severity::kWarning, kAdvice, "the flight recorder is on",
       "leave it unset, or set TORCH_FR_BUFFER_SIZE=2000", flight_recorder_off},
      {"heartbeat_before_dump", kConfig, Severity::kWarning, kAdvice,
       "the watchdog leaves the dump its time",
       "make the heartbeat longer than the time of the dump", heartbeat_before_dump},
      {"no_error_handling", kConfig, Severity::kWarning, kAdvice,
       "a collective that cannot end is ended",
       "leave TORCH_NCCL_ASYNC_ERROR_HANDLING at its default", no_error_handling},
      {"threads_beyond_cores", "cpu_oversubscription", Severity::kWarning, kAdvice,
       "the ranks of a host have no more threads than it has cores",
       "set OMP_NUM_THREADS to cores divided by ranks", threads_beyond_cores},
  };
}

}  // namespace paramedic::cluster
