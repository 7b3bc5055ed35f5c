#pragma once
// A view brought into the simplest form that visits the same elements, in any order: statistics
// don't depend on it. `for_each_chunk` then hands out the elements as dense runs.

#include <cstddef>
#include <cstdint>

#include "stats/kernels.h"
#include "stats/tensor_view.h"

namespace paramedic::stats {

// Dimensions from the largest stride to the smallest, strides > 0, none of size 1, neighbours that
// continue each other joined: a view that is dense in any order of its dimensions has just one
// dimension of stride 1. Expanded dimensions (stride 0) are taken out and only counted.
struct FlatView {
  const std::byte* data = nullptr;
  size_t element_bytes = 0;
  uint32_t ndim = 0;  // 0: one element
  int64_t sizes[kMaxDims] = {};
  int64_t strides[kMaxDims] = {};
  uint64_t repeat = 1;  // how often each element counts; 0 when there is none
};

// `view.ndim` <= kMaxDims, and the product of its sizes fits int64.
FlatView flatten(const TensorView& view);

// Copies `count` elements that are `stride` elements apart.
void gather(const std::byte* from, int64_t stride, size_t count, size_t element_bytes,
            std::byte* to);

// Counts through the outer dimensions (all but the last `inner` ones) of a flat view.
class Odometer {
 public:
  Odometer(const FlatView& view, uint32_t inner) : view_(view), ndim_(view.ndim - inner) {}

  // The first element of the current inner part.
  [[nodiscard]] const std::byte* at() const {
    return view_.data + offset_ * static_cast<int64_t>(view_.element_bytes);
  }
  // False when there is no next one.
  bool advance() {
    for (uint32_t dim = ndim_; dim-- > 0;) {
      offset_ += view_.strides[dim];
      if (++index_[dim] < view_.sizes[dim]) return true;
      offset_ -= view_.strides[dim] * view_.sizes[dim];
      index_[dim] = 0;
    }
    return false;
  }

 private:
  const FlatView& view_;
  uint32_t ndim_;
  int64_t index_[kMaxDims] = {};
  int64_t offset_ = 0;
};

// Calls use(const void* elements, size_t count) until every element of `view` was handed out
// `1` time (`view.repeat` is the caller's business). Runs too short to pay for a call are collected
// in a buffer first; so are elements that do not lie on a multiple of their size.
template <typename Use>
void for_each_chunk(const FlatView& view, Use&& use) {
  if (view.repeat == 0) return;
  constexpr size_t kLongRun = 256;
  const bool single = view.ndim == 0;
  const int64_t stride = single ? 1 : view.strides[view.ndim - 1];
  const size_t run = single ? 1 : static_cast<size_t>(view.sizes[view.ndim - 1]);
  const bool aligned = reinterpret_cast<uintptr_t>(view.data) % view.element_bytes == 0;
  const bool direct = stride == 1 && aligned && (run >= kLongRun || view.ndim <= 1);
  alignas(64) std::byte buffer[kChunk * sizeof(double)];
  size_t filled = 0;
  Odometer outer(view, single ? 0 : 1);
  do {
    if (direct) {
      use(static_cast<const void*>(outer.at()), run);
      continue;
    }
    for (size_t done = 0; done < run;) {
      const size_t room = kChunk - filled;
      const size_t part = run - done < room ? run - done : room;
      const auto skipped = static_cast<int64_t>(done * view.element_bytes) * stride;
      gather(outer.at() + skipped, stride, part, view.element_bytes,
             buffer + filled * view.element_bytes);
      done += part;
      filled += part;
      if (filled == kChunk) {
        use(static_cast<const void*>(buffer), filled);
        filled = 0;
      }
    }
  } while (outer.advance());
  if (filled > 0) use(static_cast<const void*>(buffer), filled);
}

}  // namespace paramedic::stats
