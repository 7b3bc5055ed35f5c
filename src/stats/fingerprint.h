#pragma once
// A 64-bit fingerprint of the bits of a tensor, so that copies of it in different processes can be
// compared without moving them. It depends on the order of the elements, and is the same on every
// processor. Thread-safe; allocates nothing.

#include <cstddef>
#include <cstdint>

#include "stats/kernels.h"
#include "stats/tensor_view.h"

namespace paramedic::stats {

// Elements count in the order in which they lie in memory. 0 for a tensor without elements or
// whose bits are all zero. Two tensors that differ have the same one with a probability of 2^-64,
// unless made for it: it finds copies that have parted, and is no checksum against an adversary.
// The view is as for compute_stats.
uint64_t fingerprint(const TensorView& view);

// The same, with the kernels given: for tests and benchmarks.
uint64_t fingerprint_with(const Kernels& kernels, const TensorView& view);

}  // namespace paramedic::stats
