#pragma once
// What one element is worth: its value as a double, its part in the statistics, its bin. Every
// definition that the vector kernels must reproduce stands here. Pure functions; thread-safe.

#include <bit>
#include <cmath>
#include <cstdint>

#include "stats/tensor_stats.h"

namespace paramedic::stats {

// IEEE 754 binary16.
inline float f16_value(uint16_t bits) {
  const uint32_t magnitude = bits & 0x7fffU;
  // The exponent is moved from bias 15 to bias 127 by a multiplication, which is exact and makes
  // denormals normal; Inf and NaN keep an exponent of ones.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
  const uint32_t value =
      magnitude < 0x7c00U ? std::bit_cast<uint32_t>(scaled) : (magnitude << 13) | 0x7f800000U;
  return std::bit_cast<float>(value | (static_cast<uint32_t>(bits & 0x8000U) << 16));
}

inline float bf16_value(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// OCP 8-bit floating point, revision 1.0: e5m2 is the upper half of a binary16 ...
inline float f8e5m2_value(uint8_t bits) { return f16_value(static_cast<uint16_t>(bits << 8)); }

// ... and e4m3fn has bias 7, no Inf, and a NaN only where all bits but the sign are ones.
inline float f8e4m3fn_value(uint8_t bits) {
  const int exponent = (bits >> 3) & 15;
  const int mantissa = bits & 7;
  float magnitude = std::ldexp(static_cast<float>(mantissa), -9);
  if (exponent != 0) magnitude = std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  if ((bits & 0x7f) == 0x7f) magnitude = std::numeric_limits<float>::quiet_NaN();
  return std::copysign(magnitude, (bits & 0x80) != 0 ? -1.0F : 1.0F);
}

// Adds `times` elements of the value `x`.
inline void add_element(double x, uint64_t times, TensorStats& into) {
  into.count += times;
  if (std::isnan(x)) {
    into.nan += times;
  } else if (std::isinf(x)) {
    (x > 0 ? into.positive_inf : into.negative_inf) += times;
  } else {
    const double weight = static_cast<double>(times);
    if (x == 0) into.zero += times;
    if (x < 0) into.negative += times;
    // Adding +0 makes a zero positive, so that min and max do not depend on the order.
    if (x < into.min) into.min = x + 0.0;
    if (x > into.max) into.max = x + 0.0;
    into.sum += x * weight;
    into.sum_abs += std::fabs(x) * weight;
    into.sum_squares += x * x * weight;
  }
}

// The bin of a finite `x` (tensor_stats.h, Histogram).
inline uint32_t histogram_bin(double x) {
  const uint32_t sign = std::signbit(x) ? 256 : 0;
  if (x == 0) return sign;
  int exponent = std::ilogb(x);
  if (exponent < -127) exponent = -127;
  if (exponent > 127) exponent = 127;
  return sign + static_cast<uint32_t>(exponent + 128);
}

}  // namespace paramedic::stats
