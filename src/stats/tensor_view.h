#pragma once
// What a tensor looks like to the statistics: a pointer, an element type, sizes and strides.
// Plain values; nothing here owns memory.

#include <cstddef>
#include <cstdint>

namespace paramedic::stats {

// Numbers are part of the ring and C formats: never renumber.
enum class DType : uint8_t {
  kFloat64 = 0,
  kFloat32 = 1,
  kFloat16 = 2,
  kBfloat16 = 3,
  kFloat8E4m3fn = 4,
  kFloat8E5m2 = 5,
  kInt8 = 6,
  kInt16 = 7,
  kInt32 = 8,
  kInt64 = 9,
  kUint8 = 10,
  kUint16 = 11,
  kUint32 = 12,
  kUint64 = 13,
  kBool = 14,
};
constexpr uint8_t kDTypeCount = 15;

// Bytes of one element.
size_t dtype_bytes(DType dtype);
// "float32", "bfloat16", "float8_e4m3fn", …
const char* dtype_name(DType dtype);

constexpr uint32_t kMaxDims = 8;

struct TensorView {
  const void* data = nullptr;  // first element; may be null when a size is 0
  DType dtype = DType::kFloat32;
  uint32_t ndim = 0;               // 0 = one element
  int64_t sizes[kMaxDims] = {};    // elements, >= 0
  int64_t strides[kMaxDims] = {};  // elements, may be 0 (expanded) or negative
};

// A dense view of `count` elements in one dimension.
TensorView dense_view(const void* data, DType dtype, int64_t count);

}  // namespace paramedic::stats
