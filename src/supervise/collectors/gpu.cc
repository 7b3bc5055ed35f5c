// Each NVIDIA GPU of the machine: utilisation, memory, temperature, power.

#include <dlfcn.h>
#include <fmt/format.h>

#include <utility>

#include "supervise/collectors/collector.h"
#include "supervise/collectors/nvml.h"

namespace paramedic::supervise {
namespace {

constexpr unsigned int kDevicesMax = 64;
constexpr int kGpuSensor = 0;  // NVML_TEMPERATURE_GPU

template <typename Function>
bool load(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

class NvmlCollector : public Collector {
 public:
  explicit NvmlCollector(const NvmlFunctions& functions) : nvml_(functions) {
    unsigned int count = 0;
    if (nvml_.init() != 0 || nvml_.device_count(&count) != 0) return;
    for (unsigned int i = 0; i < count && i < kDevicesMax; ++i) {
      NvmlDevice device = nullptr;
      if (nvml_.device_by_index(i, &device) == 0) devices_.emplace_back(i, device);
    }
  }

  void sample(int64_t time_ns, pid_t, store::RowSink& sink) override {
    for (const auto& [index, device] : devices_) {
      const auto emit = [&, number = index](const char* name, double value) {
        sink.on_metric({time_ns, 0, fmt::format("{}/{}", name, number), value});
      };
      if (NvmlUtilization used{}; nvml_.utilization(device, &used) == 0) {
        emit("gpu_utilization_percent", used.gpu);
      }
      if (NvmlMemory memory{}; nvml_.memory(device, &memory) == 0) {
        emit("gpu_memory_used_bytes", static_cast<double>(memory.used));
        emit("gpu_memory_bytes", static_cast<double>(memory.total));
      }
      if (unsigned int celsius = 0; nvml_.temperature(device, kGpuSensor, &celsius) == 0) {
        emit("gpu_temperature_celsius", celsius);
      }
      if (unsigned int milliwatts = 0; nvml_.power(device, &milliwatts) == 0) {
        emit("gpu_power_watts", milliwatts / 1000.0);
      }
    }
  }

 private:
  const NvmlFunctions nvml_;
  std::vector<std::pair<unsigned int, NvmlDevice>> devices_;
};

// Looks for the library when it is first asked: loading it can take a second, in which the job
// must not wait for its start.
class GpuCollector : public Collector {
 public:
  void sample(int64_t time_ns, pid_t root_pid, store::RowSink& sink) override {
    if (!std::exchange(has_looked_, true)) {
      if (const auto functions = load_nvml()) nvml_ = make_nvml_collector(*functions);
    }
    if (nvml_ != nullptr) nvml_->sample(time_ns, root_pid, sink);
  }

 private:
  bool has_looked_ = false;
  std::unique_ptr<Collector> nvml_;
};

}  // namespace

std::optional<NvmlFunctions> load_nvml() {
  // Never closed: the driver keeps threads and handlers of its own in it.
  void* library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  NvmlFunctions functions;
  const bool complete = load(library, "nvmlInit_v2", functions.init) &&
                        load(library, "nvmlDeviceGetCount_v2", functions.device_count) &&
                        load(library, "nvmlDeviceGetHandleByIndex_v2", functions.device_by_index) &&
                        load(library, "nvmlDeviceGetUtilizationRates", functions.utilization) &&
                        load(library, "nvmlDeviceGetMemoryInfo", functions.memory) &&
                        load(library, "nvmlDeviceGetTemperature", functions.temperature) &&
                        load(library, "nvmlDeviceGetPowerUsage", functions.power);
  if (!complete) return std::nullopt;
  return functions;
}

std::unique_ptr<Collector> make_nvml_collector(const NvmlFunctions& functions) {
  return std::make_unique<NvmlCollector>(functions);
}

std::unique_ptr<Collector> make_gpu_collector(const CollectorRoots&) {
  return std::make_unique<GpuCollector>();
}

}  // namespace paramedic::supervise
