// The memory of the job's control group: in a container or a Slurm step the limit that counts is
// this one, and `oom_kill` tells who killed a process. And how long the groups of its processes
// were kept off their cores by a limit of their own. Version 2 and version 1 of the interface.

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/lines.h"
#include "supervise/collectors/collector.h"
#include "supervise/process.h"

namespace paramedic::supervise {
namespace {

// What a version calls its files.
struct Layout {
  const char* controller;  // of the line in /proc/PID/cgroup
  const char* folder;      // below the root
  const char* usage;
  const char* limit;
  const char* events;
};
constexpr Layout kVersion2{"", "", "memory.current", "memory.max", "memory.events"};
constexpr Layout kVersion1{"memory", "/memory", "memory.usage_in_bytes", "memory.limit_in_bytes",
                           "memory.oom_control"};
// Version 1 says "no limit" by a number that no machine has.
constexpr uint64_t kNoLimit = uint64_t{1} << 60U;

// The path on the line "NUMBER:CONTROLLERS:PATH" that names `controller` among its controllers.
std::optional<std::string> path_of(std::string_view text, std::string_view controller) {
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    const size_t first = line.find(':');
    const size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string_view names = line.substr(first + 1, second - first - 1);
    if (names == controller) return std::string(line.substr(second + 1));
  }
  return std::nullopt;
}

class CgroupCollector : public Collector {
 public:
  explicit CgroupCollector(const CollectorRoots& roots) : roots_(roots) {}

  void sample(int64_t time_ns, pid_t root_pid, store::RowSink& sink) override {
    for (const ProcessStat& process : job_processes(roots_.proc, root_pid)) {
      sample_throttling(time_ns, process.pid, sink);
    }
    const auto groups = read_small_file(roots_.proc + "/" + std::to_string(root_pid) + "/cgroup");
    if (!groups) return;
    for (const Layout& layout : {kVersion2, kVersion1}) {
      const auto path = path_of(*groups, layout.controller);
      if (path && sample_group(time_ns, layout, *path, sink)) return;
    }
  }

 private:
  // Since the group was made, in ms; nothing where it has no limit.
  void sample_throttling(int64_t time_ns, pid_t pid, store::RowSink& sink) const {
    const auto groups = read_small_file(roots_.proc + "/" + std::to_string(pid) + "/cgroup");
    if (!groups) return;
    const auto first = path_of(*groups, "cpu");
    const auto second = path_of(*groups, "");
    if (first) {
      const auto stat = read_small_file(roots_.cgroup + "/cpu" + *first + "/cpu.stat");
      const auto ns = stat ? number_after(*stat, "throttled_time") : std::nullopt;
      if (ns && *ns > 0) sink.on_metric({time_ns, pid, "throttled_ms", to_double(*ns) / 1e6});
    } else if (second) {
      const auto stat = read_small_file(roots_.cgroup + *second + "/cpu.stat");
      const auto us = stat ? number_after(*stat, "throttled_usec") : std::nullopt;
      if (us && *us > 0) sink.on_metric({time_ns, pid, "throttled_ms", to_double(*us) / 1e3});
    }
  }

  static double to_double(uint64_t number) { return static_cast<double>(number); }

  // False when this version does not manage memory here.
  bool sample_group(int64_t time_ns, const Layout& layout, const std::string& path,
                    store::RowSink& sink) const {
    const std::string root = roots_.cgroup + layout.folder;
    std::string folder = root + path;
    auto usage = number_in(folder + "/" + layout.usage);
    if (!usage) {  // inside a container its own group is often mounted as the root
      folder = root;
      usage = number_in(folder + "/" + layout.usage);
    }
    if (!usage) return false;
    sink.on_metric({time_ns, 0, "cgroup_memory_bytes", static_cast<double>(*usage)});
    const auto limit = number_in(folder + "/" + layout.limit);
    if (limit && *limit < kNoLimit) {
      sink.on_metric({time_ns, 0, "cgroup_memory_limit_bytes", static_cast<double>(*limit)});
    }
    const auto events = read_small_file(folder + "/" + layout.events);
    const auto kills = events ? number_after(*events, "oom_kill") : std::nullopt;
    if (kills) sink.on_metric({time_ns, 0, "cgroup_oom_kills", static_cast<double>(*kills)});
    return true;
  }

  static std::optional<uint64_t> number_in(const std::string& path) {
    const auto text = read_small_file(path);
    return text ? number_after(" " + *text, "") : std::nullopt;
  }

  const CollectorRoots roots_;
};

}  // namespace

std::unique_ptr<Collector> make_cgroup_collector(const CollectorRoots& roots) {
  return std::make_unique<CgroupCollector>(roots);
}

}  // namespace paramedic::supervise
