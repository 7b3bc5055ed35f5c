#pragma once
// Turns tensors into records: the tensors that were defined, the collections of the plan that each
// belongs to, and the state of their units. Inside the training process; whatever the caller gives
// is checked, and a tensor that cannot be is left out.
//
// `define` may be called by several threads, `capture` by one at a time.

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "probe/plan.h"
#include "probe/probe.h"
#include "record/ring_writer.h"
#include "stats/tensor_stats.h"

namespace paramedic::probe {

// A unit is dead or frozen if it was in every one of the last batches; then the window restarts,
// so that a unit that comes alive late is not held against the layer for ever.
constexpr uint32_t kUnitWindowBatches = 32;
// More units than any layer has; bounds what the windows may allocate.
constexpr int64_t kUnitsMax = 1 << 20;

// A value of each kind of tensor.
template <typename T>
using PerKind = std::array<T, record::kKindCount>;

class Capturer {
 public:
  // All three outlive the capturer.
  Capturer(const Plan& plan, record::RingWriter& ring, const Clock& clock);

  std::optional<uint32_t> define(const record::DefinitionSpec& spec);
  [[nodiscard]] bool is_defined(uint32_t id) const;

  struct Request {
    record::Mode mode = record::Mode::kTrain;
    int64_t step = -1;
    PerKind<uint32_t> granted = {};  // collections (bits) that are captured now
  };
  // Records what the granted collections ask of each tensor; adds the time it took to `cost_ns`.
  // Returns how many tensors were recorded.
  int32_t capture(const Request& request, std::span<const paramedic_tensor> tensors,
                  PerKind<int64_t>* cost_ns);

 private:
  struct UnitWindow {
    uint32_t batches = 0;
    std::vector<uint8_t> alive;
    std::vector<uint8_t> moving;
  };
  // What is known of a definition; `ready` is set last.
  struct Slot {
    std::atomic<bool> ready = false;
    record::Kind kind = record::Kind::kOther;
    uint32_t collections = 0;
    std::string name;
    std::optional<uint32_t> product_id;
    std::unique_ptr<UnitWindow> window;
  };
  struct Piece;

  Slot* slot_of(uint32_t id);
  [[nodiscard]] uint32_t what_of(uint32_t collections) const;
  bool capture_one(const Request& request, const paramedic_tensor& tensor, Slot& slot,
                   uint32_t what);
  void add_stats(const Request& request, const paramedic_tensor& tensor,
                 const stats::TensorView& view, Slot& slot, uint32_t what);
  void add_units(const paramedic_tensor& tensor, const stats::TensorView& view, Slot& slot,
                 record::StatsItem* item);
  void flush_stats(const Request& request);
  bool append_histogram(const Request& request, const paramedic_tensor& tensor,
                        const stats::Histogram& histogram);
  bool append_raw(const Request& request, uint32_t id, const stats::TensorView& view);
  bool append_product(const Request& request, const paramedic_tensor& tensor,
                      const stats::TensorView& view, Slot& slot);
  bool append_shape(const Request& request, const paramedic_tensor& tensor, const Slot& slot);

  const Plan& plan_;
  record::RingWriter& ring_;
  const Clock& clock_;
  uint32_t slots_max_;
  std::unique_ptr<Slot[]> slots_;
  // Kept between calls, so that a call allocates nothing once they have grown.
  std::vector<record::StatsItem> items_;
  std::vector<record::HistogramBin> bins_;
  std::vector<std::byte> piece_;
  int32_t recorded_ = 0;
};

}  // namespace paramedic::probe
