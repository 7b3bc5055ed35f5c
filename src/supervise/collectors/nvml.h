#pragma once
// The few functions of NVIDIA's management library that the GPU collector calls, as a table: filled
// by dlopen in the program, by plain functions in tests. Types and values as in nvml.h of NVML 12
// ("NVML API Reference Guide"): the library is not needed to build.

#include <memory>
#include <optional>

#include "supervise/collectors/collector.h"

namespace paramedic::supervise {

using NvmlDevice = void*;
struct NvmlUtilization {
  unsigned int gpu;  // percent of the last sample period in which a kernel ran
  unsigned int memory;
};
struct NvmlMemory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

// Each returns 0 on success.
struct NvmlFunctions {
  int (*init)() = nullptr;
  int (*device_count)(unsigned int* count) = nullptr;
  int (*device_by_index)(unsigned int index, NvmlDevice* device) = nullptr;
  int (*utilization)(NvmlDevice device, NvmlUtilization* utilization) = nullptr;
  int (*memory)(NvmlDevice device, NvmlMemory* memory) = nullptr;
  int (*temperature)(NvmlDevice device, int sensor, unsigned int* celsius) = nullptr;
  int (*power)(NvmlDevice device, unsigned int* milliwatts) = nullptr;
};

// Nothing where the machine has no NVIDIA driver, or one that lacks a function.
std::optional<NvmlFunctions> load_nvml();

std::unique_ptr<Collector> make_nvml_collector(const NvmlFunctions& functions);

}  // namespace paramedic::supervise
