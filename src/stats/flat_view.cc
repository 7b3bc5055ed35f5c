#include "stats/flat_view.h"

#include <cstring>

namespace paramedic::stats {
namespace {

// memcpy of a constant size is one load, whatever the alignment.
template <size_t kBytes>
void gather_bytes(const std::byte* from, int64_t stride, size_t count, std::byte* to) {
  const int64_t step = stride * static_cast<int64_t>(kBytes);
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(to + i * kBytes, from + static_cast<int64_t>(i) * step, kBytes);
  }
}

// Keeps the dimensions in order of falling stride; there are at most kMaxDims.
void insert_sorted(FlatView& flat, int64_t size, int64_t stride) {
  uint32_t place = flat.ndim++;
  for (; place > 0 && flat.strides[place - 1] < stride; --place) {
    flat.sizes[place] = flat.sizes[place - 1];
    flat.strides[place] = flat.strides[place - 1];
  }
  flat.sizes[place] = size;
  flat.strides[place] = stride;
}

void join_neighbours(FlatView& flat) {
  uint32_t last = 0;
  for (uint32_t dim = 1; dim < flat.ndim; ++dim) {
    if (flat.strides[last] == flat.strides[dim] * flat.sizes[dim]) {
      flat.sizes[last] *= flat.sizes[dim];
      flat.strides[last] = flat.strides[dim];
    } else {
      ++last;
      flat.sizes[last] = flat.sizes[dim];
      flat.strides[last] = flat.strides[dim];
    }
  }
  if (flat.ndim > 0) flat.ndim = last + 1;
}

}  // namespace

FlatView flatten(const TensorView& view) {
  FlatView flat;
  flat.data = static_cast<const std::byte*>(view.data);
  flat.element_bytes = dtype_bytes(view.dtype);
  const auto bytes = static_cast<int64_t>(flat.element_bytes);
  for (uint32_t dim = 0; dim < view.ndim; ++dim) {
    if (view.sizes[dim] > 0) continue;
    flat.repeat = 0;
    return flat;
  }
  for (uint32_t dim = 0; dim < view.ndim; ++dim) {
    const int64_t size = view.sizes[dim];
    int64_t stride = view.strides[dim];
    if (size == 1) continue;
    if (stride == 0) {
      flat.repeat *= static_cast<uint64_t>(size);
      continue;
    }
    if (stride < 0) {
      // Walk the dimension from its other end.
      flat.data += (size - 1) * stride * bytes;
      stride = -stride;
    }
    insert_sorted(flat, size, stride);
  }
  join_neighbours(flat);
  return flat;
}

void gather(const std::byte* from, int64_t stride, size_t count, size_t element_bytes,
            std::byte* to) {
  if (stride == 1) {
    std::memcpy(to, from, count * element_bytes);
    return;
  }
  switch (element_bytes) {
    case 1:
      return gather_bytes<1>(from, stride, count, to);
    case 2:
      return gather_bytes<2>(from, stride, count, to);
    case 4:
      return gather_bytes<4>(from, stride, count, to);
    default:
      return gather_bytes<8>(from, stride, count, to);
  }
}

}  // namespace paramedic::stats
