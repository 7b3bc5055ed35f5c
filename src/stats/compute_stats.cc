// How a view of any type is brought before the kernels, with or without a histogram.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "stats/decode.h"
#include "stats/element.h"
#include "stats/flat_view.h"
#include "stats/float_environment.h"
#include "stats/kernels.h"

namespace paramedic::stats {
namespace {

void add_stats(const Kernels& kernels, const float* x, size_t count, TensorStats& into) {
  kernels.stats_f32(x, count, into);
}
void add_stats(const Kernels& kernels, const double* x, size_t count, TensorStats& into) {
  kernels.stats_f64(x, count, into);
}

void add_stats(const Kernels& kernels, const float* x, size_t count, TensorStats& into,
               SlotTables& slots) {
  kernels.stats_slots_f32(x, count, into, slots);
}
void add_stats(const Kernels& kernels, const double* x, size_t count, TensorStats& into,
               SlotTables& slots) {
  kernels.stats_slots_f64(x, count, into, slots);
}

using SlotCounts = std::array<uint64_t, SlotTables::kSlots>;

// Moves the counts over, so that the tables can count on from 0.
void flush(SlotTables& tables, SlotCounts& into) {
  for (auto& table : tables.counts) {
    for (size_t slot = 0; slot < SlotTables::kSlots; ++slot) {
      into[slot] += table[slot];
      table[slot] = 0;
    }
  }
}

// Bins from the counts of sign and exponent. Zeros and denormals share a slot;
// the statistics of the same elements tell them apart.
void set_bins(const SlotCounts& slots, const TensorStats& stats, Histogram& histogram) {
  uint64_t negative_normal = 0;
  for (uint32_t exponent = 1; exponent <= 254; ++exponent) {
    histogram.bins[exponent + 1] = slots[exponent];
    histogram.bins[256 + exponent + 1] = slots[256 + exponent];
    negative_normal += slots[256 + exponent];
  }
  const uint64_t negative_denormal = stats.negative - negative_normal;
  const uint64_t negative_zero = slots[256] - negative_denormal;
  const uint64_t positive_zero = stats.zero - negative_zero;
  histogram.bins[0] = positive_zero;
  histogram.bins[1] = slots[0] - positive_zero;
  histogram.bins[256] = negative_zero;
  histogram.bins[257] = negative_denormal;
}

bool one_byte(DType dtype) { return dtype_bytes(dtype) == 1; }

TensorStats plain_stats(const Kernels& kernels, const FlatView& flat, DType dtype) {
  TensorStats stats;
  for_each_chunk(flat, [&](const void* elements, size_t count) {
    with_decoded(kernels, dtype, elements, count,
                 [&](const auto* x, size_t n) { add_stats(kernels, x, n, stats); });
  });
  return stats;
}

TensorStats stats_with_histogram(const Kernels& kernels, const FlatView& flat, DType dtype,
                                 Histogram& histogram) {
  // So that 32 bits hold the counts of a table.
  constexpr size_t kMaxBetweenFlushes = size_t{1} << 30;
  TensorStats stats;
  SlotTables tables;
  SlotCounts slots = {};
  size_t unflushed = 0;
  const auto add = [&](const auto* x, size_t count) {
    while (count > 0) {
      const size_t part = std::min(count, kMaxBetweenFlushes - unflushed);
      add_stats(kernels, x, part, stats, tables);
      x += part;
      count -= part;
      unflushed += part;
      if (unflushed < kMaxBetweenFlushes) continue;
      flush(tables, slots);
      unflushed = 0;
    }
  };
  for_each_chunk(flat, [&](const void* elements, size_t count) {
    with_decoded(kernels, dtype, elements, count, add);
  });
  flush(tables, slots);
  set_bins(slots, stats, histogram);
  return stats;
}

// A byte has 256 values: once each is counted, all else follows exactly.
struct ByteCounts {
  std::array<uint64_t, 256> totals = {};

  // Increments of one counter wait for each other, so eight tables take turns.
  void add(const uint8_t* x, size_t count) {
    constexpr size_t kTables = 8;
    constexpr size_t kMaxBetweenFlushes = size_t{1} << 30;
    for (size_t begin = 0; begin < count; begin += kMaxBetweenFlushes) {
      const size_t end = std::min(count, begin + kMaxBetweenFlushes);
      uint32_t tables[kTables][256] = {};
      size_t i = begin;
      for (; i + kTables <= end; i += kTables) {
        uint64_t bytes = 0;
        std::memcpy(&bytes, x + i, sizeof bytes);
        for (size_t k = 0; k < kTables; ++k) ++tables[k][(bytes >> (8 * k)) & 255];
      }
      for (; i < end; ++i) ++tables[0][x[i]];
      for (const auto& table : tables) {
        for (size_t byte = 0; byte < totals.size(); ++byte) totals[byte] += table[byte];
      }
    }
  }
};

TensorStats one_byte_stats(const FlatView& flat, DType dtype, Histogram* histogram) {
  ByteCounts counts;
  for_each_chunk(flat, [&](const void* elements, size_t count) {
    counts.add(static_cast<const uint8_t*>(elements), count);
  });
  TensorStats stats;
  const ByteValues& values = byte_values(dtype);
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const uint64_t times = counts.totals[byte];
    if (times == 0) continue;
    const auto value = static_cast<double>(values[byte]);
    add_element(value, times, stats);
    if (histogram != nullptr && std::isfinite(value)) {
      histogram->bins[histogram_bin(value)] += times;
    }
  }
  return stats;
}

void multiply(TensorStats& stats, Histogram* histogram, uint64_t times) {
  if (times <= 1) return;
  for (uint64_t* count : {&stats.count, &stats.nan, &stats.positive_inf, &stats.negative_inf,
                          &stats.zero, &stats.negative}) {
    *count *= times;
  }
  for (double* sum : {&stats.sum, &stats.sum_abs, &stats.sum_squares}) {
    *sum *= static_cast<double>(times);
  }
  if (histogram == nullptr) return;
  for (uint64_t& bin : histogram->bins) bin *= times;
}

// A product that neither overflows nor underflows on its way: a mantissa in [0.5, 1) and an
// exponent apart. 0, Inf and NaN stay what they are.
struct ScaledProduct {
  double mantissa = 1;
  int64_t exponent = 0;

  void multiply(double factor, int64_t factor_exponent) {
    int from_factor = 0;
    int from_product = 0;
    mantissa *= std::frexp(factor, &from_factor);
    mantissa = std::frexp(mantissa, &from_product);
    exponent += factor_exponent + from_factor + from_product;
    // Far beyond any double, and far from overflow when squared again and again.
    constexpr int64_t kLimit = int64_t{1} << 60;
    exponent = std::clamp(exponent, -kLimit, kLimit);
  }
  [[nodiscard]] double value() const {
    constexpr int64_t kBeyondDouble = 5000;
    const int64_t clamped = std::clamp(exponent, -kBeyondDouble, kBeyondDouble);
    return std::ldexp(mantissa, static_cast<int>(clamped));
  }
};

}  // namespace

TensorStats compute_stats_with(const Kernels& kernels, const TensorView& view,
                               Histogram* histogram) {
  const FloatEnvironment environment;
  const FlatView flat = flatten(view);
  if (histogram != nullptr) *histogram = Histogram();
  if (flat.repeat == 0) return {};
  TensorStats stats;
  if (one_byte(view.dtype)) {
    stats = one_byte_stats(flat, view.dtype, histogram);
  } else if (histogram == nullptr) {
    stats = plain_stats(kernels, flat, view.dtype);
  } else {
    stats = stats_with_histogram(kernels, flat, view.dtype, *histogram);
  }
  multiply(stats, histogram, flat.repeat);
  return stats;
}

TensorStats compute_stats(const TensorView& view, Histogram* histogram) {
  return compute_stats_with(best_kernels(), view, histogram);
}

double compute_product_with(const Kernels& kernels, const TensorView& view) {
  const FloatEnvironment environment;
  const FlatView flat = flatten(view);
  ScaledProduct once;
  for_each_chunk(flat, [&](const void* elements, size_t count) {
    with_decoded(kernels, view.dtype, elements, count, [&](const auto* x, size_t n) {
      for (size_t i = 0; i < n; ++i) once.multiply(static_cast<double>(x[i]), 0);
    });
  });
  // To the power of `repeat`, by squaring.
  ScaledProduct result;
  for (uint64_t left = flat.repeat; left > 0; left >>= 1) {
    if ((left & 1) != 0) result.multiply(once.mantissa, once.exponent);
    once.multiply(once.mantissa, once.exponent);
  }
  return result.value();
}

double compute_product(const TensorView& view) {
  return compute_product_with(best_kernels(), view);
}

}  // namespace paramedic::stats
