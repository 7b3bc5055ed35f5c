// How a view of any type is brought before the kernels, with or without a histogram.

#include <algorithm>
#include <bit>
#include <cmath>

#include "stats/count_tables.h"
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

// Sign and exponent of a float32, as they lie: 0 for zeros and denormals, 255 for NaN and Inf.
uint32_t slot_of(float x) { return std::bit_cast<uint32_t>(x) >> 23; }

// The bin of a float64, or 512 for NaN and Inf.
constexpr uint32_t kNoBin = Histogram::kBins;
uint32_t slot_of(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  const auto exponent = static_cast<uint32_t>(bits >> 52) & 2047;  // biased by 1023
  const uint32_t bin = std::clamp(exponent, 1023U - 127, 1023U + 127) - (1023 - 128);
  const uint32_t signed_bin = (static_cast<uint32_t>(bits >> 63) << 8) + ((bits << 1) ? bin : 0);
  return exponent == 2047 ? kNoBin : signed_bin;
}

using SlotCounts = CountTables<Histogram::kBins + 1>;

// Bins of float32 data from the counts of sign and exponent. Zeros and denormals share a slot;
// the statistics of the same elements tell them apart.
void bins_from_f32(const SlotCounts& slots, const TensorStats& stats, Histogram& histogram) {
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

bool decodes_to_f64(DType dtype) {
  return dtype == DType::kFloat64 || dtype_bytes(dtype) == 8 || dtype == DType::kInt32 ||
         dtype == DType::kUint32;
}

TensorStats plain_stats(const Kernels& kernels, const FlatView& flat, DType dtype) {
  TensorStats stats;
  for_each_chunk(flat, [&](const void* elements, size_t count) {
    with_decoded(kernels, dtype, elements, count,
                 [&](const auto* x, size_t n) { add_stats(kernels, x, n, stats); });
  });
  return stats;
}

// The histogram is a second loop over pieces that are still in the first-level cache.
TensorStats stats_with_histogram(const Kernels& kernels, const FlatView& flat, DType dtype,
                                 Histogram& histogram) {
  TensorStats stats;
  SlotCounts slots;
  size_t unflushed = 0;
  const auto add = [&](const auto* x, size_t count) {
    for (size_t begin = 0; begin < count; begin += kChunk) {
      const size_t part = std::min(kChunk, count - begin);
      add_stats(kernels, x + begin, part, stats);
      slots.add(x + begin, part, [](auto value) { return slot_of(value); });
      unflushed += part;
      if (unflushed >= SlotCounts::kMaxBetweenFlushes - kChunk) {
        slots.flush();
        unflushed = 0;
      }
    }
  };
  for_each_chunk(flat, [&](const void* elements, size_t count) {
    with_decoded(kernels, dtype, elements, count, add);
  });
  slots.flush();
  if (decodes_to_f64(dtype)) {
    for (uint32_t bin = 0; bin < Histogram::kBins; ++bin) histogram.bins[bin] = slots[bin];
  } else {
    bins_from_f32(slots, stats, histogram);
  }
  return stats;
}

// A byte has 256 values: once each is counted, all else follows exactly.
TensorStats one_byte_stats(const FlatView& flat, DType dtype, Histogram* histogram) {
  using ByteCounts = CountTables<256>;
  ByteCounts counts;
  size_t unflushed = 0;
  for_each_chunk(flat, [&](const void* elements, size_t count) {
    const auto* x = static_cast<const uint8_t*>(elements);
    while (count > 0) {
      const size_t part = std::min(count, ByteCounts::kMaxBetweenFlushes - unflushed);
      counts.add(x, part, [](uint8_t byte) { return byte; });
      x += part;
      count -= part;
      unflushed += part;
      if (unflushed < ByteCounts::kMaxBetweenFlushes) continue;
      counts.flush();
      unflushed = 0;
    }
  });
  counts.flush();
  TensorStats stats;
  const ByteValues& values = byte_values(dtype);
  for (uint32_t byte = 0; byte < 256; ++byte) {
    if (counts[byte] == 0) continue;
    const auto value = static_cast<double>(values[byte]);
    add_element(value, counts[byte], stats);
    if (histogram != nullptr && std::isfinite(value)) {
      histogram->bins[histogram_bin(value)] += counts[byte];
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
