#pragma once
// For tests and the fuzzer, not part of the library: a view made from arbitrary bytes, and the
// comparison of every supported set of kernels on it with a naive reading, one element at a time,
// in long double. Plain values; thread-safe.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "stats/tensor_stats.h"

namespace paramedic::stats {

struct Case {
  std::vector<std::byte> storage;  // `view` points into it
  TensorView view;
  uint32_t unit_dim = 0;
  double low = 0;
  double high = 0;
};

// Any bytes give a valid case: element type, dimensions, strides (negative, 0, overlapping,
// transposed), alignment, and contents from plain patterns to mostly NaN, Inf, denormals and -0.
Case case_from_bytes(std::span<const uint8_t> bytes);

// The value of the element at `element`, which may lie at any address.
double element_value(DType dtype, const std::byte* element);
// All elements of a view, in row-major order of its indices.
std::vector<double> values_of(const TensorView& view);

// What the naive reading gives.
struct Expected {
  TensorStats stats;
  Histogram histogram;
};
Expected expected_of(const std::vector<double>& values);

// The largest difference between a sum and its exact value that docs/design/0001 allows, where
// `magnitude` is the sum of the absolute values of what is summed.
double sum_tolerance(uint64_t count, double magnitude);

// "" if all kernels agree with the naive reading, else what differs, by whose kernels.
std::string first_difference(const Case& subject);

}  // namespace paramedic::stats
