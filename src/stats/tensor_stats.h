#pragma once
// The statistics of a tensor, computed in one pass, mergeable in any order: shards, chunks and
// ranks combine with `merge`. Plain values; thread-safe.

#include <array>
#include <cstdint>
#include <limits>

#include "stats/tensor_view.h"

namespace paramedic::stats {

// Its bytes stand in the ring format: fields are never moved, only added at the end.
// min, max and the sums are over the finite elements only; NaN and Inf are counted apart.
// Counts, min and max are exact, and 64-bit integers count as their nearest double. A sum differs
// from the exact one by at most (4096 + count/256) * 2^-53 of the sum of its terms' absolute values
// (docs/design/0001-statistics.md); where that sum passes what a double holds it is Inf or NaN.
struct TensorStats {
  uint64_t count = 0;  // all elements
  uint64_t nan = 0;
  uint64_t positive_inf = 0;
  uint64_t negative_inf = 0;
  uint64_t zero = 0;                                      // +0 and -0
  uint64_t negative = 0;                                  // finite and < 0
  double min = std::numeric_limits<double>::infinity();   // +Inf when nothing is finite
  double max = -std::numeric_limits<double>::infinity();  // -Inf when nothing is finite
  double sum = 0;
  double sum_abs = 0;
  double sum_squares = 0;

  [[nodiscard]] uint64_t finite() const { return count - nan - positive_inf - negative_inf; }
  [[nodiscard]] uint64_t non_finite() const { return nan + positive_inf + negative_inf; }
  // All of these are NaN when nothing is finite.
  [[nodiscard]] double mean() const;
  [[nodiscard]] double mean_abs() const;
  // The population variance (divided by n, as numpy's default) and its root; never negative.
  [[nodiscard]] double variance() const;
  [[nodiscard]] double std() const;
  [[nodiscard]] double rms() const;
  [[nodiscard]] double max_abs() const;
  [[nodiscard]] double l1() const { return sum_abs; }
  [[nodiscard]] double l2() const;
};
static_assert(sizeof(TensorStats) == 88);

// `into` becomes the statistics of both together. Associative and commutative: exactly in the
// counts, min and max, up to rounding in the sums.
void merge(TensorStats& into, const TensorStats& other);

// The statistics of x/divisor, given those of x. `divisor` is finite and > 0.
TensorStats divided_by(TensorStats stats, double divisor);

// log2 histogram with sign. Bin of a finite non-zero x: exponent e = floor(log2 |x|) clamped to
// [-127, 127], index = (x < 0 ? 256 : 0) + e + 128. Bins 0 and 256 hold +0 and -0.
// NaN and Inf are not binned.
struct Histogram {
  static constexpr uint32_t kBins = 512;
  std::array<uint64_t, kBins> bins = {};
};
void merge(Histogram& into, const Histogram& other);

// One pass over the tensor; `histogram`, when given, is overwritten. Any view is accepted:
// dense ones take the fast path of the instruction set chosen at run time. `view.ndim` is at most
// kMaxDims and the product of its sizes fits int64. Allocates nothing, uses at most 64 kB of stack,
// and leaves the thread's floating-point settings and flags as they were.
TensorStats compute_stats(const TensorView& view, Histogram* histogram = nullptr);

// Product of all elements (NaN and Inf take part; 1 for none); only on request, for SageMaker's
// `prod`. Does not overflow on the way; a relative error of 2^-53 for each element.
double compute_product(const TensorView& view);

// Whether units (channels, neurons) of an activation carry anything. A unit is one index of
// dimension `unit_dim`; bits are added to `alive` and `moving`, arrays of one byte a unit that the
// caller keeps over several batches:
//   alive[u]  |= some element of the unit is not zero
//   moving[u] |= some element of the unit lies in [low, high]
// Returns how many elements (finite or not) lie outside [low, high]. Does nothing and returns 0
// where the view has no dimension `unit_dim`. NaN is not zero and lies outside.
uint64_t mark_units(const TensorView& view, uint32_t unit_dim, double low, double high,
                    uint8_t* alive, uint8_t* moving);

}  // namespace paramedic::stats
