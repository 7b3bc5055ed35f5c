#include "stats/tensor_view.h"

namespace paramedic::stats {
namespace {

struct DTypeInfo {
  uint8_t bytes;
  const char* name;
};

// In the order of the enumeration.
constexpr DTypeInfo kDTypes[] = {
    {8, "float64"},     {4, "float32"}, {2, "float16"}, {2, "bfloat16"}, {1, "float8_e4m3fn"},
    {1, "float8_e5m2"}, {1, "int8"},    {2, "int16"},   {4, "int32"},    {8, "int64"},
    {1, "uint8"},       {2, "uint16"},  {4, "uint32"},  {8, "uint64"},   {1, "bool"},
};
static_assert(sizeof(kDTypes) / sizeof(kDTypes[0]) == kDTypeCount);

}  // namespace

size_t dtype_bytes(DType dtype) { return kDTypes[static_cast<uint8_t>(dtype)].bytes; }

const char* dtype_name(DType dtype) { return kDTypes[static_cast<uint8_t>(dtype)].name; }

TensorView dense_view(const void* data, DType dtype, int64_t count) {
  TensorView view;
  view.data = data;
  view.dtype = dtype;
  view.ndim = 1;
  view.sizes[0] = count;
  view.strides[0] = 1;
  return view;
}

}  // namespace paramedic::stats
