#pragma once
// A collector samples one source of resource figures. Adding one: a file collectors/SOURCE.cc
// that defines `make_SOURCE_collector`, one line in list.inc, one test. Collectors know nothing
// of the store: they emit MetricRows. One thread, the agent's.

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "store/rows.h"

namespace paramedic::supervise {

// Where the sources are; tests put small folders in their place.
struct CollectorRoots {
  std::string proc = "/proc";
  std::string cgroup = "/sys/fs/cgroup";
};

class Collector {
 public:
  Collector() = default;
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;
  virtual ~Collector() = default;

  // Emits what can be read now. `root_pid`: the job's first process. A figure that needs two
  // samples (a rate) comes from the second one on. What cannot be read is left out.
  virtual void sample(int64_t time_ns, pid_t root_pid, store::RowSink& sink) = 0;
};

#define PARAMEDIC_COLLECTOR(source) \
  std::unique_ptr<Collector> make_##source##_collector(const CollectorRoots& roots);
#include "supervise/collectors/list.inc"
#undef PARAMEDIC_COLLECTOR

std::vector<std::unique_ptr<Collector>> make_collectors(const CollectorRoots& roots);

}  // namespace paramedic::supervise
