#include "probe/probe.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "probe/budget.h"
#include "probe/capture.h"
#include "probe/collectives.h"
#include "probe/plan.h"
#include "probe/schedule.h"
#include "probe/tensor_input.h"
#include "record/ring_writer.h"
#include "record/try_lock.h"
#include "stats/fingerprint.h"
#include "stats/tensor_stats.h"

static_assert(PARAMEDIC_MAX_DIMS == paramedic::stats::kMaxDims);

using paramedic::Bytes;
using paramedic::probe::Capturer;
using paramedic::probe::PerKind;
using paramedic::record::Kind;
using paramedic::record::Mode;
using paramedic::record::RecordSpec;
using paramedic::record::RecordType;
using paramedic::record::ScalarItem;
using paramedic::record::TryLock;
using paramedic::record::TryLockGuard;

// Everything an open probe has. The two locks are never held together with a wait: whoever cannot
// get one gives up.
struct paramedic_probe {  // NOLINT(readability-identifier-naming): the name of the C interface
  paramedic_probe(paramedic::probe::Plan parsed,
                  std::unique_ptr<paramedic::record::RingWriter> made, double overhead_budget)
      : ring(std::move(made)),
        plan(std::move(parsed)),
        budget(overhead_budget),
        schedule(plan, budget),
        capturer(plan, *ring, paramedic::real_clock()),
        collectives(*ring) {}

  std::unique_ptr<paramedic::record::RingWriter> ring;
  const paramedic::probe::Plan plan;
  TryLock schedule_lock;  // of budget and schedule
  paramedic::probe::Budget budget;
  paramedic::probe::Schedule schedule;
  TryLock capture_lock;  // of Capturer::capture
  Capturer capturer;
  paramedic::probe::Collectives collectives;

  // 0: works, 1: `error` is being written, 2: off.
  std::atomic<int> off = 0;
  std::array<char, 512> error = {};
};

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

bool works(const paramedic_probe* probe) {
  return probe != nullptr && probe->off.load(std::memory_order_relaxed) == 0 &&
         probe->ring->owned_by_this_process();
}

void copy_text(std::string_view text, char* to, size_t bytes) {
  if (to == nullptr || bytes == 0) return;
  const size_t used = std::min(text.size(), bytes - 1);
  std::memcpy(to, text.data(), used);
  to[used] = '\0';
}

void switch_off(paramedic_probe* probe, const char* why) {
  int works = 0;
  if (!probe->off.compare_exchange_strong(works, 1)) return;
  copy_text(why, probe->error.data(), probe->error.size());
  probe->off.store(2, std::memory_order_release);
}

// Every function of the interface that does something runs in here. What the standard library
// throws (no memory) ends at this edge and switches the probe off.
template <typename T, typename Body>
T guarded(paramedic_probe* probe, T otherwise, Body&& body) noexcept {
  if (!works(probe)) return otherwise;
  try {
    return body();
  } catch (const std::exception& error) {
    switch_off(probe, error.what());
  } catch (...) {
    switch_off(probe, "unknown exception");
  }
  return otherwise;
}

Mode mode_of(uint8_t mode) {
  return mode < paramedic::record::kModeCount ? static_cast<Mode>(mode) : Mode::kGlobal;
}

paramedic::Result<std::unique_ptr<paramedic_probe>> open_probe(const paramedic_options* options) {
  if (options == nullptr || options->struct_bytes != sizeof(paramedic_options)) {
    return paramedic::invalid_argument(
        "the options are of another version of the probe (" +
        std::to_string(options == nullptr ? 0 : options->struct_bytes) + " bytes, not " +
        std::to_string(sizeof(paramedic_options)) + ")");
  }
  if (options->ring_directory == nullptr || options->run_id == nullptr) {
    return paramedic::invalid_argument("no ring_directory or no run_id");
  }
  if (!(options->overhead_budget >= 0 && options->overhead_budget <= 1)) {
    return paramedic::invalid_argument("overhead_budget is not a share from 0 to 1: " +
                                       std::to_string(options->overhead_budget));
  }
  PARAMEDIC_ASSIGN(auto plan,
                   paramedic::probe::parse_plan(options->plan != nullptr ? options->plan : ""));
  paramedic::record::RingOptions ring_options;
  ring_options.directory = options->ring_directory;
  ring_options.run_id = options->run_id;
  if (options->ring_bytes != 0) ring_options.ring_bytes = options->ring_bytes;
  ring_options.rank = options->rank;
  ring_options.world_size = options->world_size;
  PARAMEDIC_ASSIGN(auto ring, paramedic::record::RingWriter::create(ring_options));
  return std::make_unique<paramedic_probe>(std::move(plan), std::move(ring),
                                           options->overhead_budget);
}

int32_t capture(paramedic_probe* probe, Mode mode, int64_t step,
                std::span<const paramedic_tensor> tensors) {
  Capturer::Request request{mode, step, {}};
  {
    const TryLockGuard guard(probe->schedule_lock);
    if (!guard.held()) {
      probe->ring->count_drop();
      return 0;
    }
    for (uint32_t kind = 0; kind < paramedic::record::kKindCount; kind++) {
      request.granted[kind] = probe->schedule.granted(mode, step, static_cast<Kind>(kind));
    }
  }
  PerKind<int64_t> cost_ns = {};
  int32_t recorded = 0;
  {
    const TryLockGuard guard(probe->capture_lock);
    if (!guard.held()) {
      probe->ring->count_drop();
      return 0;
    }
    recorded = probe->capturer.capture(request, tensors, &cost_ns);
  }
  const TryLockGuard guard(probe->schedule_lock);
  if (guard.held()) {
    for (uint32_t kind = 0; kind < paramedic::record::kKindCount; kind++) {
      probe->budget.spent(static_cast<Kind>(kind), cost_ns[kind]);
    }
  }
  return recorded;
}

int32_t record_scalars(paramedic_probe* probe, RecordSpec spec, const int32_t* ids,
                       const double* values, int32_t count) {
  std::array<ScalarItem, 128> items;
  int32_t recorded = 0;
  for (int32_t i = 0; i < count;) {
    uint32_t used = 0;
    for (; i < count && used < items.size(); i++) {
      if (ids[i] < 0 || !probe->capturer.is_defined(static_cast<uint32_t>(ids[i]))) continue;
      items[used++] = {static_cast<uint32_t>(ids[i]), 0, values[i]};
    }
    if (used == 0) continue;
    spec.count = used;
    const std::array<Bytes, 1> parts = {std::as_bytes(std::span(items).first(used))};
    if (probe->ring->append(spec, parts)) recorded += static_cast<int32_t>(used);
  }
  return recorded;
}

// One element as a double, whatever its type is.
double read_element(uint64_t data, uint8_t dtype) {
  paramedic_tensor tensor{};
  tensor.data = data;
  tensor.dtype = dtype;
  const auto view = paramedic::probe::view_of(tensor);
  if (!view) return kNan;
  const paramedic::stats::TensorStats stats = paramedic::stats::compute_stats(*view);
  if (stats.nan > 0) return kNan;
  if (stats.positive_inf > 0) return std::numeric_limits<double>::infinity();
  if (stats.negative_inf > 0) return -std::numeric_limits<double>::infinity();
  return stats.sum;
}

}  // namespace

int32_t paramedic_probe_version(void) { return PARAMEDIC_PROBE_VERSION; }

paramedic_probe* paramedic_probe_open(const paramedic_options* options, char* error,
                                      uint32_t error_bytes) {
  try {
    auto probe = open_probe(options);
    if (probe.ok()) return probe.value().release();
    const paramedic::Status& status = probe.status();
    copy_text(status.hint().empty() ? status.message() : status.message() + "; " + status.hint(),
              error, error_bytes);
  } catch (const std::exception& exception) {
    copy_text(exception.what(), error, error_bytes);
  } catch (...) {
    copy_text("unknown exception", error, error_bytes);
  }
  return nullptr;
}

void paramedic_probe_close(paramedic_probe* probe) {
  if (probe == nullptr) return;
  probe->ring->close();
  delete probe;
}

void paramedic_probe_finish(paramedic_probe* probe) {
  if (probe != nullptr) probe->ring->close();
}

int32_t paramedic_define(paramedic_probe* probe, uint8_t kind, uint8_t dtype, uint8_t ndim,
                         const int64_t* sizes, const char* name) {
  return guarded<int32_t>(probe, -1, [&]() -> int32_t {
    if (kind >= paramedic::record::kDefinitionKindCount || name == nullptr) return -1;
    paramedic::record::DefinitionSpec spec;
    spec.kind = static_cast<Kind>(kind);
    spec.name = {name, strnlen(name, paramedic::record::kNameBytesMax + 1)};
    if (spec.kind != Kind::kScalar) {
      if (dtype >= paramedic::stats::kDTypeCount || ndim > PARAMEDIC_MAX_DIMS ||
          (ndim > 0 && sizes == nullptr)) {
        return -1;
      }
      spec.dtype = static_cast<paramedic::stats::DType>(dtype);
      spec.sizes = {sizes, ndim};
      if (std::any_of(spec.sizes.begin(), spec.sizes.end(), [](int64_t n) { return n < 0; })) {
        return -1;
      }
    }
    const std::optional<uint32_t> id = kind < paramedic::record::kKindCount
                                           ? probe->capturer.define(spec)
                                           : probe->collectives.define(spec);
    return id ? static_cast<int32_t>(*id) : -1;
  });
}

uint32_t paramedic_due(paramedic_probe* probe, uint8_t mode, int64_t step) {
  return guarded<uint32_t>(probe, 0, [&]() -> uint32_t {
    const TryLockGuard guard(probe->schedule_lock);
    return guard.held() ? probe->schedule.due(mode_of(mode), step) : 0;
  });
}

int64_t paramedic_next_due(paramedic_probe* probe, uint8_t mode, int64_t step) {
  constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  return guarded<int64_t>(probe, kNever, [&]() -> int64_t {
    const TryLockGuard guard(probe->schedule_lock);
    return guard.held() ? probe->schedule.next_due(mode_of(mode), step) : step + 1;
  });
}

int32_t paramedic_capture(paramedic_probe* probe, uint8_t mode, int64_t step,
                          const paramedic_tensor* tensors, int32_t count) {
  return guarded<int32_t>(probe, 0, [&]() -> int32_t {
    if (tensors == nullptr || count <= 0) return 0;
    return capture(probe, mode_of(mode), step, {tensors, static_cast<size_t>(count)});
  });
}

int32_t paramedic_scalars_of_steps(paramedic_probe* probe, uint8_t mode, const int64_t* steps,
                                   const int32_t* ids, const double* values, int32_t count) {
  return guarded<int32_t>(probe, 0, [&]() -> int32_t {
    if (steps == nullptr || ids == nullptr || values == nullptr) return 0;
    int32_t recorded = 0;
    for (int32_t from = 0, to = 0; from < count; from = to) {
      while (to < count && steps[to] == steps[from]) to++;
      recorded += record_scalars(probe, {RecordType::kScalars, mode_of(mode), steps[from], 0},
                                 ids + from, values + from, to - from);
    }
    return recorded;
  });
}

double paramedic_scalar_at(paramedic_probe* probe, uint8_t mode, int64_t step, int32_t id,
                           uint64_t data, uint8_t dtype, double divisor) {
  return guarded<double>(probe, kNan, [&]() -> double {
    if (data == 0) return kNan;
    const double value = read_element(data, dtype) / (divisor == 0 ? 1.0 : divisor);
    record_scalars(probe, {RecordType::kScalars, mode_of(mode), step, 0}, &id, &value, 1);
    return value;
  });
}

void paramedic_fingerprint(const paramedic_tensor* tensors, int32_t count, uint64_t* fingerprints) {
  if (tensors == nullptr || fingerprints == nullptr) return;
  for (int32_t i = 0; i < count; i++) {
    const auto view = paramedic::probe::view_of(tensors[i]);
    fingerprints[i] = view ? paramedic::stats::fingerprint(*view) : 0;
  }
}

int32_t paramedic_event(paramedic_probe* probe, uint8_t mode, int64_t step, const char* kind,
                        const char* json) {
  return guarded<int32_t>(probe, 0, [&]() -> int32_t {
    if (kind == nullptr || json == nullptr) return 0;
    const std::string_view kind_text(kind,
                                     strnlen(kind, paramedic::record::kEventKindBytesMax + 1));
    const std::string_view json_text(json,
                                     strnlen(json, paramedic::record::kEventJsonBytesMax + 1));
    if (kind_text.empty() || kind_text.size() > paramedic::record::kEventKindBytesMax ||
        json_text.size() > paramedic::record::kEventJsonBytesMax) {
      probe->ring->count_drop();
      return 0;
    }
    const paramedic::record::EventItem item{static_cast<uint32_t>(kind_text.size()),
                                            static_cast<uint32_t>(json_text.size())};
    const std::array<Bytes, 3> parts = {std::as_bytes(std::span(&item, 1)),
                                        paramedic::as_bytes(kind_text),
                                        paramedic::as_bytes(json_text)};
    return probe->ring->append({RecordType::kEvent, mode_of(mode), step, 1}, parts) ? 1 : 0;
  });
}

int32_t paramedic_collective_enter(paramedic_probe* probe, int64_t step, int64_t number,
                                   const paramedic_collective* call) {
  return guarded<int32_t>(probe, 0, [&]() -> int32_t {
    return call != nullptr && probe->collectives.enter(step, number, *call) ? 1 : 0;
  });
}

int32_t paramedic_collective_leave(paramedic_probe* probe, int64_t step, int64_t number,
                                   uint32_t group) {
  return guarded<int32_t>(
      probe, 0, [&]() -> int32_t { return probe->collectives.leave(step, number, group) ? 1 : 0; });
}

void paramedic_step_done(paramedic_probe* probe, int64_t step, int64_t step_ns, int64_t spent_ns,
                         uint32_t spent_kinds) {
  guarded<int>(probe, 0, [&] {
    const TryLockGuard guard(probe->schedule_lock);
    if (guard.held()) {
      probe->budget.step_done(step_ns, spent_ns, spent_kinds);
      probe->ring->step_done(step, probe->budget.overhead_ppm());
    }
    return 0;
  });
}

double paramedic_overhead_percent(const paramedic_probe* probe) {
  return probe != nullptr ? probe->ring->overhead_ppm() / 1e4 : 0;
}

uint64_t paramedic_dropped(const paramedic_probe* probe) {
  return probe != nullptr ? probe->ring->dropped_records() : 0;
}

const char* paramedic_probe_error(const paramedic_probe* probe) {
  if (probe == nullptr) return "the probe is not open";
  if (!probe->ring->owned_by_this_process()) {
    return "the probe was opened before a fork: this child has to open one of its own";
  }
  return probe->off.load(std::memory_order_acquire) == 2 ? probe->error.data() : "";
}
