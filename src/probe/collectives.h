#pragma once
// Records of collectives: what they are told with is defined once, a call is two small records.
// Inside the training process; whatever the caller gives is checked, and a call that cannot be is
// dropped and counted. Any thread may call anything.

#include <atomic>
#include <memory>
#include <optional>

#include "probe/probe.h"
#include "record/ring_writer.h"

namespace paramedic::probe {

// Groups, operations and call sites of a process. Tensors share the directory: it must not be
// filled by a job that makes groups or code without end.
constexpr uint32_t kCollectiveNamesMax = 4096;

class Collectives {
 public:
  // `ring` outlives it.
  explicit Collectives(record::RingWriter& ring);

  // `spec.kind` is one of those behind the kinds with values.
  std::optional<uint32_t> define(const record::DefinitionSpec& spec);
  bool enter(int64_t step, int64_t number, const paramedic_collective& call);
  bool leave(int64_t step, int64_t number, uint32_t group);

 private:
  [[nodiscard]] bool is(uint32_t id, record::Kind kind) const;
  bool refuse();

  record::RingWriter& ring_;
  std::atomic<uint32_t> names_ = 0;
  uint32_t ids_max_;
  std::unique_ptr<std::atomic<uint8_t>[]> kinds_;  // by id; 0: not one of ours
};

}  // namespace paramedic::probe
