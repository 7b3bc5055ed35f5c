#include "supervise/collectors/collector.h"

namespace paramedic::supervise {

std::vector<std::unique_ptr<Collector>> make_collectors(const CollectorRoots& roots) {
  std::vector<std::unique_ptr<Collector>> collectors;
#define PARAMEDIC_COLLECTOR(source) collectors.push_back(make_##source##_collector(roots));
#include "supervise/collectors/list.inc"
#undef PARAMEDIC_COLLECTOR
  return collectors;
}

}  // namespace paramedic::supervise
