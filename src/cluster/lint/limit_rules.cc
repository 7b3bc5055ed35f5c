// What a host grants: shared memory, open files, locked memory, the clock.

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "cluster/lint/lint.h"

namespace paramedic::cluster {
namespace {

using rules::Severity;

// What Docker gives a container, which the workers of a DataLoader soon fill.
constexpr uint64_t kSharedMemoryBytes = 64ULL << 20;
// Sockets to every other rank, the files of a data set, the pipes of workers.
constexpr double kFilesBase = 256;
constexpr double kFilesARank = 4;
constexpr double kOffsetMs = 500;

void shared_memory_small(const JobSettings& job, const Complain& complain) {
  for (const HostFacts& facts : job.hosts) {
    if (!facts.shared_memory_bytes || *facts.shared_memory_bytes > kSharedMemoryBytes) continue;
    complain(
        {nullptr,
         "",
         fmt::format("/dev/shm of {} has {} MiB", facts.host, *facts.shared_memory_bytes >> 20),
         {}});
  }
}

void open_files_few(const JobSettings& job, const Complain& complain) {
  for (const Setting& process : job.processes) {
    const auto limit = process.limits.find("open_files");
    if (limit == process.limits.end()) continue;
    const auto ranks = static_cast<double>(process.world_size().value_or(1));
    const double needed = kFilesBase + kFilesARank * ranks;
    if (limit->second >= needed) continue;
    complain({nullptr,
              "",
              fmt::format("{} may open {:.0f} files (ulimit -n); with {:.0f} ranks "
                          "{:.0f} are soon needed",
                          process.name, limit->second, ranks, needed),
              {}});
    return;
  }
}

void locked_memory_limited(const JobSettings& job, const Complain& complain) {
  for (const Setting* process : members_of(job)) {
    const HostFacts* facts = job.facts(process->host);
    const auto limit = process->limits.find("locked_bytes");
    if (facts == nullptr || !facts->has_infiniband || limit == process->limits.end()) continue;
    if (process->number("NCCL_IB_DISABLE") == 1) continue;
    complain({nullptr,
              "",
              fmt::format("{} may lock {:.0f} kB of memory (ulimit -l), and "
                          "InfiniBand must lock its buffers",
                          process->name, limit->second / 1024),
              {}});
    return;
  }
}

void clocks_differ(const JobSettings& job, const Complain& complain) {
  for (const HostFacts& facts : job.hosts) {
    if (!facts.clock_offset_ms || std::abs(*facts.clock_offset_ms) < kOffsetMs) continue;
    complain(
        {nullptr,
         "",
         fmt::format("the clock of {} is {:.1f} s {} that of {}", facts.host,
                     std::abs(*facts.clock_offset_ms) / 1000,
                     *facts.clock_offset_ms > 0 ? "ahead of" : "behind", job.hosts.front().host),
         {}});
  }
}

}  // namespace

std::vector<LintRule> limit_rules() {
  constexpr auto kAdvice = LintGrade::kAdvice;
  return {
      {"shared_memory_small", "cluster_config", Severity::kWarning, kAdvice,
       "/dev/shm is larger than 64 MiB", "start the container with --shm-size 8g or --ipc host",
       shared_memory_small},
      {"open_files_few", "cluster_config", Severity::kWarning, kAdvice,
       "ulimit -n leaves room for the sockets of all ranks", "raise it: ulimit -n 65536",
       open_files_few},
      {"locked_memory_limited", "cluster_config", Severity::kWarning, kAdvice,
       "ulimit -l is unlimited where there is InfiniBand", "raise it: ulimit -l unlimited",
       locked_memory_limited},
      {"clocks_differ", "clock_skew", Severity::kWarning, kAdvice,
       "the clocks of the hosts agree within half a second",
       "run chrony or ntpd on all hosts: times in logs cannot be compared", clocks_differ},
  };
}

}  // namespace paramedic::cluster
