#pragma once
// Elements of any type as float32 or float64, which hold all of them exactly but the largest
// 64-bit integers (those are rounded to the nearest float64).

#include <array>
#include <cstddef>

#include "stats/kernels.h"
#include "stats/tensor_view.h"

namespace paramedic::stats {

// The values of the 256 patterns of a one-byte type. A bool is 0 or 1 whatever its bits.
using ByteValues = std::array<float, 256>;
const ByteValues& byte_values(DType dtype);

// Calls use(x, n), x a `const float*` or a `const double*`, for all `count` dense and aligned
// elements at `from`, in order: as they lie where they are of these types already, else converted
// in pieces of at most kChunk.
template <typename Use>
void with_decoded(const Kernels& kernels, DType dtype, const void* from, size_t count, Use&& use) {
  const auto convert = [&]<typename To>(void (*decode)(const void*, size_t, To*)) {
    alignas(64) To buffer[kChunk];
    const size_t bytes = dtype_bytes(dtype);
    for (size_t begin = 0; begin < count; begin += kChunk) {
      const size_t part = count - begin < kChunk ? count - begin : kChunk;
      decode(static_cast<const std::byte*>(from) + begin * bytes, part, buffer);
      use(static_cast<const To*>(buffer), part);
    }
  };
  switch (dtype) {
    case DType::kFloat32:
      return use(static_cast<const float*>(from), count);
    case DType::kFloat64:
      return use(static_cast<const double*>(from), count);
    case DType::kFloat16:
      return convert(kernels.decode_f16);
    case DType::kBfloat16:
      return convert(kernels.decode_bf16);
    case DType::kInt16:
      return convert(kernels.decode_i16);
    case DType::kUint16:
      return convert(kernels.decode_u16);
    case DType::kInt32:
      return convert(kernels.decode_i32);
    case DType::kUint32:
      return convert(kernels.decode_u32);
    case DType::kInt64:
      return convert(kernels.decode_i64);
    case DType::kUint64:
      return convert(kernels.decode_u64);
    default:
      break;
  }
  const ByteValues& values = byte_values(dtype);
  const auto* bytes = static_cast<const uint8_t*>(from);
  float buffer[kChunk];
  for (size_t begin = 0; begin < count; begin += kChunk) {
    const size_t part = count - begin < kChunk ? count - begin : kChunk;
    for (size_t i = 0; i < part; ++i) buffer[i] = values[bytes[begin + i]];
    use(static_cast<const float*>(buffer), part);
  }
}

}  // namespace paramedic::stats
