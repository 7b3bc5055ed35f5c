// Each process of the job: CPU, memory, threads, I/O, from /proc.

#include <unistd.h>

#include <map>
#include <utility>

#include "supervise/collectors/collector.h"
#include "supervise/process.h"

namespace paramedic::supervise {
namespace {

class ProcessTreeCollector : public Collector {
 public:
  explicit ProcessTreeCollector(const CollectorRoots& roots) : proc_(roots.proc) {}

  void sample(int64_t time_ns, pid_t root_pid, store::RowSink& sink) override {
    std::map<pid_t, Previous> seen;
    for (const ProcessStat& process : job_processes(proc_, root_pid)) {
      sample_process(time_ns, process, sink);
      const uint64_t ticks = process.user_ticks + process.system_ticks;
      seen[process.pid] = {process.start_ticks, ticks, time_ns};
    }
    previous_ = std::move(seen);
  }

 private:
  struct Previous {
    uint64_t start_ticks = 0;
    uint64_t cpu_ticks = 0;
    int64_t time_ns = 0;
  };

  void sample_process(int64_t time_ns, const ProcessStat& process, store::RowSink& sink) const {
    const auto emit = [&](const char* name, double value) {
      sink.on_metric({time_ns, process.pid, name, value});
    };
    emit("rss_bytes", static_cast<double>(process.resident_pages) * page_bytes_);
    emit("threads", static_cast<double>(process.threads));
    const auto previous = previous_.find(process.pid);
    const uint64_t ticks = process.user_ticks + process.system_ticks;
    if (previous != previous_.end() && previous->second.start_ticks == process.start_ticks &&
        previous->second.cpu_ticks <= ticks && previous->second.time_ns < time_ns) {
      const double seconds = static_cast<double>(time_ns - previous->second.time_ns) / 1e9;
      const auto used = static_cast<double>(ticks - previous->second.cpu_ticks);
      emit("cpu_percent", 100 * used / ticks_a_second_ / seconds);
    }
    // Of another user's process it cannot be read.
    const auto io = read_small_file(proc_ + "/" + std::to_string(process.pid) + "/io");
    if (!io) return;
    if (const auto bytes = number_after(*io, "read_bytes")) {
      emit("io_read_bytes", static_cast<double>(*bytes));
    }
    if (const auto bytes = number_after(*io, "write_bytes")) {
      emit("io_write_bytes", static_cast<double>(*bytes));
    }
  }

  const std::string proc_;
  const double page_bytes_ = static_cast<double>(::sysconf(_SC_PAGESIZE));
  const double ticks_a_second_ = static_cast<double>(::sysconf(_SC_CLK_TCK));
  std::map<pid_t, Previous> previous_;
};

}  // namespace

std::unique_ptr<Collector> make_process_tree_collector(const CollectorRoots& roots) {
  return std::make_unique<ProcessTreeCollector>(roots);
}

}  // namespace paramedic::supervise
