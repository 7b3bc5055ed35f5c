// The whole machine: how busy its cores are and how much memory is left.

#include <array>
#include <optional>
#include <sstream>

#include "base/lines.h"
#include "supervise/collectors/collector.h"
#include "supervise/process.h"

namespace paramedic::supervise {
namespace {

// proc(5), the line "cpu": user nice system idle iowait irq softirq steal; guest times are
// counted in user and nice already.
constexpr size_t kIdle = 3;
constexpr size_t kIoWait = 4;
using CpuTicks = std::array<uint64_t, 8>;

std::optional<CpuTicks> parse_cpu_line(const std::string& text) {
  std::istringstream line{std::string(first_line(text))};
  std::string name;
  CpuTicks ticks{};
  line >> name;
  for (uint64_t& value : ticks) line >> value;
  if (line.fail() || name != "cpu") return std::nullopt;
  return ticks;
}

class MachineCollector : public Collector {
 public:
  explicit MachineCollector(const CollectorRoots& roots) : proc_(roots.proc) {}

  void sample(int64_t time_ns, pid_t, store::RowSink& sink) override {
    if (const auto text = read_small_file(proc_ + "/stat")) {
      sample_cores(time_ns, *text, sink);
      sample_cpu(time_ns, *text, sink);
    }
    const auto memory = read_small_file(proc_ + "/meminfo");
    if (!memory) return;
    constexpr double kBytes = 1024;
    if (const auto total = number_after(*memory, "MemTotal")) {
      sink.on_metric({time_ns, 0, "machine_memory_bytes", static_cast<double>(*total) * kBytes});
    }
    if (const auto left = number_after(*memory, "MemAvailable")) {
      sink.on_metric(
          {time_ns, 0, "machine_memory_available_bytes", static_cast<double>(*left) * kBytes});
    }
  }

 private:
  // "cpu0", "cpu1", …: a line for each core that is on.
  static void sample_cores(int64_t time_ns, const std::string& text, store::RowSink& sink) {
    double cores = 0;
    for (size_t at = text.find("\ncpu"); at != std::string::npos; at = text.find("\ncpu", at + 1)) {
      cores += 1;
    }
    if (cores > 0) sink.on_metric({time_ns, 0, "machine_cores", cores});
  }

  void sample_cpu(int64_t time_ns, const std::string& text, store::RowSink& sink) {
    const auto ticks = parse_cpu_line(text);
    if (!ticks) return;
    if (previous_) {
      double all = 0;
      CpuTicks spent{};
      for (size_t i = 0; i < spent.size(); ++i) {
        // The kernel lets iowait go back at times.
        spent[i] = (*ticks)[i] > (*previous_)[i] ? (*ticks)[i] - (*previous_)[i] : 0;
        all += static_cast<double>(spent[i]);
      }
      if (all > 0) {
        const auto waited = static_cast<double>(spent[kIoWait]);
        const double idle = static_cast<double>(spent[kIdle]) + waited;
        sink.on_metric({time_ns, 0, "machine_cpu_percent", 100 * (all - idle) / all});
        sink.on_metric({time_ns, 0, "machine_iowait_percent", 100 * waited / all});
      }
    }
    previous_ = ticks;
  }

  const std::string proc_;
  std::optional<CpuTicks> previous_;
};

}  // namespace

std::unique_ptr<Collector> make_machine_collector(const CollectorRoots& roots) {
  return std::make_unique<MachineCollector>(roots);
}

}  // namespace paramedic::supervise
