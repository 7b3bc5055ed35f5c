// Who is which rank, and what the launchers were told.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>
#include <utility>

#include "cluster/lint/launch_line.h"
#include "cluster/lint/lint.h"

namespace paramedic::cluster {
namespace {

using rules::Severity;

void rank_no_number(const JobSettings& job, const Complain& complain) {
  for (const Setting& process : job.processes) {
    for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK"}) {
      const std::string* value = process.variable(name);
      if (value == nullptr || whole_number(*value).value_or(-1) >= 0) continue;
      complain({&process,
                name,
                fmt::format("{} of {} is '{}', which is no number from 0 on", name, process.name,
                            *value),
                {}});
    }
  }
}

// One rank may run once. Where all of them run equally often these are several jobs.
void rank_duplicate(const JobSettings& job, const Complain& complain) {
  std::map<int64_t, std::vector<const Setting*>> by_rank;
  for (const Setting* process : ranks_of(job)) by_rank[*process->rank()].push_back(process);
  std::vector<int64_t> missing;
  const auto ranks = ranks_of(job);
  const int64_t world_size = ranks.empty() ? 0 : ranks.front()->world_size().value_or(0);
  for (int64_t rank = 0; rank < world_size && missing.size() < 8; ++rank) {
    if (!by_rank.contains(rank)) missing.push_back(rank);
  }
  for (const auto& [rank, same] : by_rank) {
    if (same.size() < 2) continue;
    Complaint complaint{
        same.back(), "RANK", fmt::format("{} processes have RANK {}", same.size(), rank), {}};
    if (!missing.empty()) {
      complaint.message += fmt::format(", and none has rank {}", fmt::join(missing, ", "));
    }
    for (const Setting* process : same) {
      complaint.evidence.push_back(process->pid != 0
                                       ? fmt::format("pid {} has RANK={}", process->pid, rank)
                                       : fmt::format("{} has RANK={}", process->name, rank));
    }
    complain(std::move(complaint));
  }
}

// Who looks at one process, or does not know of all hosts, cannot tell.
void rank_missing(const JobSettings& job, const Complain& complain) {
  const auto ranks = ranks_of(job);
  if (ranks.size() < 2) return;
  std::set<int64_t> present;
  std::set<int64_t> sizes;
  for (const Setting* process : ranks) {
    present.insert(*process->rank());
    sizes.insert(process->world_size().value_or(0));
  }
  if (sizes.size() != 1 || present.size() < ranks.size()) return;  // another rule's matter
  std::vector<int64_t> missing;
  for (int64_t rank = 0; rank < *sizes.begin() && missing.size() < 8; ++rank) {
    if (!present.contains(rank)) missing.push_back(rank);
  }
  if (missing.empty()) return;
  complain({nullptr,
            "WORLD_SIZE",
            fmt::format("WORLD_SIZE is {}, but there is no process with rank {}", *sizes.begin(),
                        fmt::join(missing, ", ")),
            {}});
}

void rank_out_of_range(const JobSettings& job, const Complain& complain) {
  for (const Setting* process : ranks_of(job)) {
    const int64_t size = process->world_size().value_or(0);
    if (size < 1 || *process->rank() < size) continue;
    complain({process,
              "RANK",
              fmt::format("RANK {} is outside of WORLD_SIZE {}: ranks go from 0 "
                          "to {}",
                          *process->rank(), size, size - 1),
              {}});
  }
}

void world_size_differs(const JobSettings& job, const Complain& complain) {
  const auto size_of = [](const Setting& process) {
    return std::to_string(process.world_size().value_or(0));
  };
  const auto ranks = ranks_of(job);
  const Odd odd = odd_ones(ranks, size_of);
  for (const Setting* process : odd.processes) {
    complain({process,
              "WORLD_SIZE",
              fmt::format("WORLD_SIZE is {} on {} and {} on the others", size_of(*process),
                          process->name, odd.majority),
              {}});
  }
  std::set<std::string> sizes;
  for (const Setting* process : ranks) sizes.insert(size_of(*process));
  if (!odd.processes.empty() || sizes.size() < 2) return;
  complain({nullptr,
            "WORLD_SIZE",
            fmt::format("WORLD_SIZE differs between the ranks: {}", fmt::join(sizes, ", ")),
            {"WORLD_SIZE is " + who_has_what(ranks, size_of)}});
}

void local_rank_beyond_devices(const JobSettings& job, const Complain& complain) {
  for (const Setting* process : ranks_of(job)) {
    const HostFacts* facts = job.facts(process->host);
    const auto local = process->number("LOCAL_RANK");
    if (!local || facts == nullptr || facts->devices.value_or(0) < 1) continue;
    if (*local < *facts->devices) continue;
    complain({process,
              "LOCAL_RANK",
              fmt::format("LOCAL_RANK is {}, but {} has {} accelerators", *local, process->host,
                          *facts->devices),
              {}});
  }
}

void local_rank_duplicate(const JobSettings& job, const Complain& complain) {
  std::map<std::pair<std::string, int64_t>, const Setting*> seen;
  for (const Setting* process : ranks_of(job)) {
    const auto local = process->number("LOCAL_RANK");
    if (!local) continue;
    const auto [known, is_new] = seen.try_emplace({process->host, *local}, process);
    if (is_new || known->second->rank() == process->rank()) continue;
    complain(
        {process,
         "LOCAL_RANK",
         fmt::format("{} and {} on {} have the same LOCAL_RANK {}", known->second->name,
                     process->name, process->host.empty() ? "one host" : process->host, *local),
         {}});
  }
}

void world_size_no_product(const JobSettings& job, const Complain& complain) {
  for (const Setting* process : ranks_of(job)) {
    const auto nodes = process->number("NNODES");
    auto each = process->number("NPROC_PER_NODE");
    if (!each) each = process->number("LOCAL_WORLD_SIZE");
    const int64_t size = process->world_size().value_or(0);
    if (!nodes || !each || *nodes * *each == size) continue;
    complain({process,
              "WORLD_SIZE",
              fmt::format("WORLD_SIZE is {} on {}, but {} nodes of {} processes make {}", size,
                          process->name, *nodes, *each, *nodes * *each),
              {}});
    return;
  }
}

std::vector<LaunchLine> launchers_of(const JobSettings& job) {
  std::vector<LaunchLine> lines;
  for (const Setting& process : job.processes) {
    if (process.is_launcher()) lines.push_back(parse_launch(process));
  }
  return lines;
}

// Launchers of one job that were told different things.
void launchers_differ(const JobSettings& job, const Complain& complain, const char* option) {
  std::vector<const Setting*> launchers;
  std::map<const Setting*, std::string> told;
  std::set<std::string> values;
  for (const Setting& process : job.processes) {
    if (!process.is_launcher()) continue;
    const LaunchLine line = parse_launch(process);
    if (line.nnodes < 2) continue;
    launchers.push_back(&process);
    values.insert(told[&process] = line.option(option));
  }
  if (values.size() < 2) return;
  const auto value_of = [&](const Setting& launcher) { return told.at(&launcher); };
  complain({nullptr,
            "",
            fmt::format("the launchers of one job have different --{}: {}", option,
                        who_has_what(launchers, value_of)),
            {}});
}

void nnodes_differ(const JobSettings& job, const Complain& complain) {
  launchers_differ(job, complain, "nnodes");
}
void rdzv_id_differs(const JobSettings& job, const Complain& complain) {
  launchers_differ(job, complain, "rdzv-id");
}
void rdzv_endpoint_differs(const JobSettings& job, const Complain& complain) {
  launchers_differ(job, complain, "rdzv-endpoint");
}

void rdzv_port_zero(const JobSettings& job, const Complain& complain) {
  for (const LaunchLine& line : launchers_of(job)) {
    const std::string endpoint = line.option("rdzv-endpoint");
    if (line.nnodes < 2 || !endpoint.ends_with(":0")) continue;
    complain({nullptr,
              "",
              fmt::format("--rdzv-endpoint {} has port 0: each node would choose "
                          "another one",
                          endpoint),
              {}});
    return;
  }
}

void node_rank_wrong(const JobSettings& job, const Complain& complain) {
  std::map<std::string, int> seen;
  for (const LaunchLine& line : launchers_of(job)) {
    const std::string text = line.option("node-rank");
    if (line.nnodes < 2 || !line.is_static()) continue;
    const int64_t node = whole_number(text.empty() ? "0" : text).value_or(0);
    if (node >= line.nnodes) {
      complain({nullptr,
                "",
                fmt::format("--node-rank {} is outside of --nnodes {}", node, line.nnodes),
                {}});
    } else if (++seen[std::to_string(node)] == 2) {
      complain({nullptr, "", fmt::format("two launchers have --node-rank {}", node), {}});
    }
  }
}

}  // namespace

std::vector<LintRule> launch_rules() {
  constexpr auto kSure = LintGrade::kSure;
  constexpr auto kAdvice = LintGrade::kAdvice;
  constexpr const char* kConfig = "cluster_config";
  return {
      {"rank_no_number", kConfig, Severity::kError, kSure,
       "RANK, WORLD_SIZE, LOCAL_RANK are numbers",
       "set it to a number; an empty value often comes from a variable that is not set",
       rank_no_number},
      {"rank_duplicate", kConfig, Severity::kError, kSure, "each rank runs once",
       "give every process a RANK of its own, from 0 to WORLD_SIZE - 1", rank_duplicate},
      {"rank_missing", kConfig, Severity::kWarning, kAdvice, "each rank from 0 on has a process",
       "start the missing process, or lower WORLD_SIZE", rank_missing},
      {"rank_out_of_range", kConfig, Severity::kError, kSure, "RANK is less than WORLD_SIZE",
       "ranks count from 0; raise WORLD_SIZE or lower RANK", rank_out_of_range},
      {"world_size_differs", kConfig, Severity::kError, kSure, "all ranks have one WORLD_SIZE",
       "set the same WORLD_SIZE on all ranks", world_size_differs},
      {"local_rank_beyond_devices", kConfig, Severity::kWarning, kAdvice,
       "LOCAL_RANK is less than the number of accelerators",
       "start at most one process for each accelerator of the host", local_rank_beyond_devices},
      {"local_rank_duplicate", kConfig, Severity::kWarning, kAdvice,
       "LOCAL_RANK is unique on a host",
       "give each process of a host its own LOCAL_RANK: they would share an accelerator",
       local_rank_duplicate},
      {"world_size_no_product", kConfig, Severity::kWarning, kAdvice,
       "WORLD_SIZE is nodes times processes of a node", "make WORLD_SIZE the product of both",
       world_size_no_product},
      {"nnodes_differ", kConfig, Severity::kError, kSure, "all launchers have one --nnodes",
       "start all nodes with the same --nnodes", nnodes_differ},
      {"rdzv_id_differs", kConfig, Severity::kError, kSure, "all launchers have one --rdzv-id",
       "start all nodes with the same --rdzv-id", rdzv_id_differs},
      {"rdzv_endpoint_differs", kConfig, Severity::kError, kSure,
       "all launchers have one --rdzv-endpoint", "start all nodes with the same --rdzv-endpoint",
       rdzv_endpoint_differs},
      {"rdzv_port_zero", kConfig, Severity::kError, kSure,
       "the rendezvous of several nodes has a port", "choose a free port, such as 29400",
       rdzv_port_zero},
      {"node_rank_wrong", kConfig, Severity::kError, kSure, "each node has its own --node-rank",
       "number the nodes from 0 to --nnodes - 1", node_rank_wrong},
  };
}

}  // namespace paramedic::cluster
