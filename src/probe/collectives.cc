#include "probe/collectives.h"

#include <algorithm>
#include <array>
#include <span>

namespace paramedic::probe {

using record::Kind;

Collectives::Collectives(record::RingWriter& ring)
    : ring_(ring),
      ids_max_(ring.definitions_max()),
      kinds_(std::make_unique<std::atomic<uint8_t>[]>(ids_max_)) {}

std::optional<uint32_t> Collectives::define(const record::DefinitionSpec& spec) {
  if (names_.fetch_add(1, std::memory_order_relaxed) >= kCollectiveNamesMax) {
    names_.store(kCollectiveNamesMax, std::memory_order_relaxed);
    return std::nullopt;
  }
  const std::optional<uint32_t> id = ring_.define(spec);
  if (!id || *id >= ids_max_) return std::nullopt;
  kinds_[*id].store(static_cast<uint8_t>(spec.kind), std::memory_order_release);
  return id;
}

bool Collectives::is(uint32_t id, Kind kind) const {
  return id < ids_max_ && kinds_[id].load(std::memory_order_acquire) == static_cast<uint8_t>(kind);
}

bool Collectives::refuse() {
  ring_.count_drop();
  return false;
}

bool Collectives::enter(int64_t step, int64_t number, const paramedic_collective& call) {
  const bool is_known = is(call.group, Kind::kGroup) && is(call.operation, Kind::kOperation) &&
                        (call.where == record::kNoDefinition || is(call.where, Kind::kCallSite));
  if (!is_known || number < 0 || call.peer < -1 || call.dtype >= stats::kDTypeCount ||
      call.ndim > PARAMEDIC_MAX_DIMS) {
    return refuse();
  }
  const std::span sizes(call.sizes, call.ndim);
  if (std::any_of(sizes.begin(), sizes.end(), [](int64_t size) { return size < 0; })) {
    return refuse();
  }
  record::CollectiveItem item{};
  item.group = call.group;
  item.operation = call.operation;
  item.where = call.where;
  item.peer = call.peer;
  item.number = number;
  item.bytes = call.bytes;
  item.dtype = call.dtype;
  item.asynchronous = call.asynchronous != 0 ? 1 : 0;
  const std::array<Bytes, 2> parts = {std::as_bytes(std::span(&item, 1)), std::as_bytes(sizes)};
  return ring_.append(
      {record::RecordType::kCollectiveEntered, record::Mode::kTrain, step, call.ndim}, parts);
}

bool Collectives::leave(int64_t step, int64_t number, uint32_t group) {
  if (number < 0 || !is(group, Kind::kGroup)) return refuse();
  const record::CollectiveLeftItem item{group, 0, number};
  const std::array<Bytes, 1> parts = {std::as_bytes(std::span(&item, 1))};
  return ring_.append({record::RecordType::kCollectiveLeft, record::Mode::kTrain, step, 1}, parts);
}

}  // namespace paramedic::probe
