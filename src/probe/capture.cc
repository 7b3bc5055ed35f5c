#include "probe/capture.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "probe/tensor_input.h"

namespace paramedic::probe {
namespace {

using record::RecordSpec;
using record::RecordType;

template <typename T>
Bytes bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

// The bins of x/divisor, given those of x: exponents move by log2 of the divisor. Exact for powers
// of two, which loss scales are; for other divisors a value may be one bin off.
stats::Histogram moved(const stats::Histogram& histogram, double divisor) {
  const auto shift = static_cast<int>(std::lround(std::log2(divisor)));
  if (shift == 0) return histogram;
  constexpr int kHalf = stats::Histogram::kBins / 2;
  stats::Histogram result;
  for (int bin = 0; bin < 2 * kHalf; bin++) {
    const int sign = bin / kHalf * kHalf;
    const int place = bin % kHalf;  // 0 holds the zeros, which no divisor moves
    const int to = place == 0 ? 0 : std::clamp(place - shift, 1, kHalf - 1);
    result.bins[static_cast<size_t>(sign) + static_cast<size_t>(to)] +=
        histogram.bins[static_cast<size_t>(bin)];
  }
  return result;
}

std::string quoted(const std::string& text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string json = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') json += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      json += "\\u00";
      json += kHex[c >> 4];
      json += kHex[c & 15];
    } else {
      json += c;
    }
  }
  return json + '"';
}

}  // namespace

Capturer::Capturer(const Plan& plan, record::RingWriter& ring, const Clock& clock)
    : plan_(plan),
      ring_(ring),
      clock_(clock),
      slots_max_(ring.definitions_max()),
      slots_(std::make_unique<Slot[]>(slots_max_)) {}

std::optional<uint32_t> Capturer::define(const record::DefinitionSpec& spec) {
  // Everything that may fail comes before the definition gets its number.
  std::string name(spec.name);
  const uint32_t collections = plan_.collections_of(spec.kind, name);
  std::optional<uint32_t> product_id;
  if ((what_of(collections) & kWhatProduct) != 0) {
    record::DefinitionSpec product;
    product.kind = record::Kind::kScalar;
    const std::string product_name = "prod/" + name;
    product.name = product_name;
    product_id = define(product);
  }
  const std::optional<uint32_t> id = ring_.define(spec);
  if (!id || *id >= slots_max_) return std::nullopt;
  Slot& slot = slots_[*id];
  slot.kind = spec.kind;
  slot.collections = collections;
  slot.name = std::move(name);
  slot.product_id = product_id;
  slot.ready.store(true, std::memory_order_release);
  return id;
}

bool Capturer::is_defined(uint32_t id) const {
  return id < slots_max_ && slots_[id].ready.load(std::memory_order_acquire);
}

Capturer::Slot* Capturer::slot_of(uint32_t id) { return is_defined(id) ? &slots_[id] : nullptr; }

uint32_t Capturer::what_of(uint32_t collections) const {
  uint32_t what = 0;
  for (; collections != 0; collections &= collections - 1) {
    what |= plan_.collections[static_cast<size_t>(std::countr_zero(collections))].what;
  }
  return what;
}

int32_t Capturer::capture(const Request& request, std::span<const paramedic_tensor> tensors,
                          PerKind<int64_t>* cost_ns) {
  recorded_ = 0;
  items_.clear();
  int64_t started_ns = clock_.monotonic_ns();
  record::Kind timed = record::Kind::kOther;
  const auto charge = [&] {
    const int64_t now_ns = clock_.monotonic_ns();
    (*cost_ns)[static_cast<size_t>(timed)] += now_ns - started_ns;
    started_ns = now_ns;
  };
  bool any = false;
  for (const paramedic_tensor& tensor : tensors) {
    Slot* slot = slot_of(tensor.id);
    if (slot == nullptr) continue;
    const uint32_t what =
        what_of(slot->collections & request.granted[static_cast<size_t>(slot->kind)]);
    if (what == 0) continue;
    // Tensors of one kind come together, so this reads the clock once a kind.
    if (any && slot->kind != timed) charge();
    timed = slot->kind;
    any = true;
    if (capture_one(request, tensor, *slot, what)) recorded_++;
  }
  flush_stats(request);
  if (any) charge();
  return recorded_;
}

// Answers whether the tensor was recorded by something else than its statistics, which are counted
// once their record is written.
bool Capturer::capture_one(const Request& request, const paramedic_tensor& tensor, Slot& slot,
                           uint32_t what) {
  const std::optional<stats::TensorView> view = view_of(tensor);
  if (!view) return false;
  if ((what & kWhatStats) != 0) add_stats(request, tensor, *view, slot, what);
  bool others = false;
  if ((what & kWhatRaw) != 0) others |= append_raw(request, tensor.id, *view);
  if ((what & kWhatProduct) != 0) others |= append_product(request, tensor, *view, slot);
  if ((what & kWhatShape) != 0) others |= append_shape(request, tensor, slot);
  return others && (what & kWhatStats) == 0;
}

void Capturer::add_stats(const Request& request, const paramedic_tensor& tensor,
                         const stats::TensorView& view, Slot& slot, uint32_t what) {
  record::StatsItem item{};
  item.id = tensor.id;
  const double divisor = divisor_of(tensor);
  if ((what & kWhatHistogram) != 0) {
    stats::Histogram histogram;
    item.stats = stats::compute_stats(view, &histogram);
    append_histogram(request, tensor, histogram);
  } else {
    item.stats = stats::compute_stats(view);
  }
  if (divisor != 1.0) item.stats = stats::divided_by(item.stats, divisor);
  if ((what & kWhatUnits) != 0) add_units(tensor, view, slot, &item);
  items_.push_back(item);
  const size_t items_max =
      (ring_.record_bytes_max() - sizeof(record::RecordHeader)) / sizeof(record::StatsItem);
  if (items_.size() >= items_max) flush_stats(request);
}

void Capturer::add_units(const paramedic_tensor& tensor, const stats::TensorView& view, Slot& slot,
                         record::StatsItem* item) {
  if (tensor.unit_dim >= view.ndim) return;
  const int64_t units = view.sizes[tensor.unit_dim];
  if (units < 1 || units > kUnitsMax || element_count(view) == 0) return;
  if (!slot.window) slot.window = std::make_unique<UnitWindow>();
  UnitWindow& window = *slot.window;
  if (window.batches == kUnitWindowBatches || window.alive.size() != static_cast<size_t>(units)) {
    window.alive.assign(static_cast<size_t>(units), 0);
    window.moving.assign(static_cast<size_t>(units), 0);
    window.batches = 0;
  }
  const double divisor = divisor_of(tensor);
  item->outside =
      stats::mark_units(view, tensor.unit_dim, tensor.low * divisor, tensor.high * divisor,
                        window.alive.data(), window.moving.data());
  window.batches++;
  item->units = static_cast<uint32_t>(units);
  item->units_dead =
      static_cast<uint32_t>(std::count(window.alive.begin(), window.alive.end(), uint8_t{0}));
  item->units_frozen =
      static_cast<uint32_t>(std::count(window.moving.begin(), window.moving.end(), uint8_t{0}));
  item->unit_batches = window.batches;
}

void Capturer::flush_stats(const Request& request) {
  if (items_.empty()) return;
  const RecordSpec spec{RecordType::kStats, request.mode, request.step,
                        static_cast<uint32_t>(items_.size())};
  const std::array<Bytes, 1> parts = {std::as_bytes(std::span(items_))};
  if (ring_.append(spec, parts)) recorded_ += static_cast<int32_t>(items_.size());
  items_.clear();
}

bool Capturer::append_histogram(const Request& request, const paramedic_tensor& tensor,
                                const stats::Histogram& histogram) {
  const stats::Histogram scaled = moved(histogram, divisor_of(tensor));
  bins_.clear();
  for (uint32_t bin = 0; bin < stats::Histogram::kBins; bin++) {
    if (scaled.bins[bin] > 0) bins_.push_back({bin, 0, scaled.bins[bin]});
  }
  const record::HistogramItem item{tensor.id, 0};
  const std::array<Bytes, 2> parts = {bytes_of(item), std::as_bytes(std::span(bins_))};
  return ring_.append(
      {RecordType::kHistogram, request.mode, request.step, static_cast<uint32_t>(bins_.size())},
      parts);
}

bool Capturer::append_raw(const Request& request, uint32_t id, const stats::TensorView& view) {
  const size_t element_bytes = stats::dtype_bytes(view.dtype);
  record::TensorItem item{};
  item.id = id;
  item.total_bytes = static_cast<uint64_t>(element_count(view)) * element_bytes;
  const uint64_t piece_max = ring_.record_bytes_max() - sizeof(record::RecordHeader) - sizeof item;
  // Half a tensor is of no use: all pieces with their headers fit, or none is written.
  if (item.total_bytes / piece_max * (piece_max + 2 * sizeof item) + 2 * ring_.record_bytes_max() >
      ring_.free_bytes()) {
    ring_.count_drop();
    return false;
  }
  const bool dense = is_row_major(view);
  ElementWalk walk(view);
  do {
    item.piece_bytes =
        static_cast<uint32_t>(std::min(piece_max, item.total_bytes - item.offset_bytes));
    Bytes values;
    if (dense) {
      values = {static_cast<const std::byte*>(view.data) + item.offset_bytes, item.piece_bytes};
    } else {
      piece_.resize(item.piece_bytes);
      for (size_t at = 0; at < item.piece_bytes; at += element_bytes, walk.next()) {
        std::memcpy(piece_.data() + at, walk.get(), element_bytes);
      }
      values = piece_;
    }
    const std::array<Bytes, 2> parts = {bytes_of(item), values};
    if (!ring_.append({RecordType::kTensor, request.mode, request.step, 1}, parts)) return false;
    item.offset_bytes += item.piece_bytes;
  } while (item.offset_bytes < item.total_bytes);
  return true;
}

bool Capturer::append_product(const Request& request, const paramedic_tensor& tensor,
                              const stats::TensorView& view, Slot& slot) {
  if (!slot.product_id) return false;
  record::ScalarItem item{};
  item.id = *slot.product_id;
  item.value = stats::compute_product(view) /
               std::pow(divisor_of(tensor), static_cast<double>(element_count(view)));
  const std::array<Bytes, 1> parts = {bytes_of(item)};
  return ring_.append({RecordType::kScalars, request.mode, request.step, 1}, parts);
}

bool Capturer::append_shape(const Request& request, const paramedic_tensor& tensor,
                            const Slot& slot) {
  constexpr std::string_view kKind = "shape";
  std::string json = "{\"tensor\": " + quoted(slot.name) + ", \"sizes\": [";
  for (uint32_t i = 0; i < tensor.ndim; i++) {
    json += (i == 0 ? "" : ", ") + std::to_string(tensor.sizes[i]);
  }
  json += "]}";
  const record::EventItem item{static_cast<uint32_t>(kKind.size()),
                               static_cast<uint32_t>(json.size())};
  const std::array<Bytes, 3> parts = {bytes_of(item), as_bytes(kKind), as_bytes(json)};
  return ring_.append({RecordType::kEvent, request.mode, request.step, 1}, parts);
}

}  // namespace paramedic::probe
