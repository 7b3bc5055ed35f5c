// Which units of an activation carry anything.

#include <cmath>
#include <limits>

#include "stats/decode.h"
#include "stats/flat_view.h"
#include "stats/float_environment.h"
#include "stats/kernels.h"

namespace paramedic::stats {
namespace {

// [low, high] for each of the two types that elements are decoded to. The floats are the outermost
// ones inside the range, so that comparing floats gives exactly what comparing doubles would.
struct Range {
  double low;
  double high;
  float low_f32;
  float high_f32;

  Range(double from, double to)
      : low(from), high(to), low_f32(static_cast<float>(from)), high_f32(static_cast<float>(to)) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    if (static_cast<double>(low_f32) < low) low_f32 = std::nextafter(low_f32, kInfinity);
    if (static_cast<double>(high_f32) > high) high_f32 = std::nextafter(high_f32, -kInfinity);
  }
};

struct Marks {
  uint8_t* alive;
  uint8_t* moving;
};

uint64_t mark_row(const Kernels& kernels, const float* x, size_t count, const Range& range,
                  Marks marks) {
  return kernels.mark_row_f32(x, count, range.low_f32, range.high_f32, marks.alive, marks.moving);
}
uint64_t mark_row(const Kernels& kernels, const double* x, size_t count, const Range& range,
                  Marks marks) {
  return kernels.mark_row_f64(x, count, range.low, range.high, marks.alive, marks.moving);
}
RunMarks mark_run(const Kernels& kernels, const float* x, size_t count, const Range& range) {
  return kernels.mark_run_f32(x, count, range.low_f32, range.high_f32);
}
RunMarks mark_run(const Kernels& kernels, const double* x, size_t count, const Range& range) {
  return kernels.mark_run_f64(x, count, range.low, range.high);
}

// Units lie side by side (linear layers, channels-last): all of them a row at a time.
uint64_t mark_rows(const Kernels& kernels, DType dtype, const FlatView& others, size_t units,
                   const Range& range, Marks marks) {
  uint64_t inside = 0;
  Odometer row(others, 0);
  do {
    size_t first = 0;
    with_decoded(kernels, dtype, row.at(), units, [&](const auto* x, size_t count) {
      const Marks part = {marks.alive + first, marks.moving + first};
      inside += mark_row(kernels, x, count, range, part);
      first += count;
    });
  } while (row.advance());
  return inside;
}

// One unit after the other: the elements of each form runs (images, channels first).
uint64_t mark_runs(const Kernels& kernels, DType dtype, const FlatView& unit, const Range& range,
                   Marks marks) {
  RunMarks all;
  for_each_chunk(unit, [&](const void* elements, size_t count) {
    with_decoded(kernels, dtype, elements, count, [&](const auto* x, size_t n) {
      const RunMarks part = mark_run(kernels, x, n, range);
      all.inside += part.inside;
      all.alive |= part.alive;
    });
  });
  *marks.alive |= static_cast<uint8_t>(all.alive);
  *marks.moving |= static_cast<uint8_t>(all.inside != 0);
  return all.inside;
}

// The view of unit 0: `view` without that dimension.
TensorView without_dim(TensorView view, uint32_t removed) {
  --view.ndim;
  for (uint32_t dim = removed; dim < view.ndim; ++dim) {
    view.sizes[dim] = view.sizes[dim + 1];
    view.strides[dim] = view.strides[dim + 1];
  }
  return view;
}

uint64_t elements_of(const FlatView& flat) {
  uint64_t count = flat.repeat;
  for (uint32_t dim = 0; dim < flat.ndim; ++dim) count *= static_cast<uint64_t>(flat.sizes[dim]);
  return count;
}

}  // namespace

uint64_t mark_units_with(const Kernels& kernels, const TensorView& view, uint32_t unit_dim,
                         double low, double high, uint8_t* alive, uint8_t* moving) {
  if (unit_dim >= view.ndim || view.sizes[unit_dim] <= 0) return 0;
  const FloatEnvironment environment;
  const Range range(low, high);
  const auto units = static_cast<size_t>(view.sizes[unit_dim]);
  const int64_t stride = view.strides[unit_dim];
  FlatView others = flatten(without_dim(view, unit_dim));
  if (others.repeat == 0) return 0;
  const bool aligned = reinterpret_cast<uintptr_t>(others.data) % others.element_bytes == 0;
  uint64_t inside = 0;
  if (stride == 1 && units > 1 && aligned) {
    inside = mark_rows(kernels, view.dtype, others, units, range, {alive, moving});
  } else {
    const std::byte* first = others.data;
    for (size_t unit = 0; unit < units; ++unit) {
      const int64_t offset = static_cast<int64_t>(unit) * stride;
      others.data = first + offset * static_cast<int64_t>(others.element_bytes);
      inside += mark_runs(kernels, view.dtype, others, range, {alive + unit, moving + unit});
    }
  }
  return units * elements_of(others) - inside * others.repeat;
}

uint64_t mark_units(const TensorView& view, uint32_t unit_dim, double low, double high,
                    uint8_t* alive, uint8_t* moving) {
  return mark_units_with(best_kernels(), view, unit_dim, low, high, alive, moving);
}

}  // namespace paramedic::stats
