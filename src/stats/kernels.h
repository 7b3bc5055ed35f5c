#pragma once
// The inner loops of the statistics, once for each instruction set, and the choice between them.
// Every set gives the same counts, min and max; sums differ by rounding only (docs/design/0001).
// Tables are constant; everything here is thread-safe.

#include <cstddef>
#include <cstdint>
#include <span>

#include "stats/tensor_stats.h"

namespace paramedic::stats {

// Elements handed to a kernel at once where they had to be gathered or converted first: 8 kB of
// doubles, which stay in the first-level cache between the passes over them.
constexpr size_t kChunk = 1024;

// Counts of float32 elements by their sign and exponent as they lie (the upper 9 bits), from which
// the histogram follows. Increments of one counter wait for each other, so eight tables take turns.
struct SlotTables {
  static constexpr size_t kTables = 8;
  static constexpr size_t kSlots = 512;
  uint32_t counts[kTables][kSlots] = {};
};

// What of a run of elements lies where; `inside` counts those in [low, high].
struct RunMarks {
  bool alive = false;
  uint64_t inside = 0;
};

// The two sums of the fingerprint (fingerprint.cc), for the lower and the upper half of each 64-bit
// word of a block: a half has room to be weighted before anything of it is carried out.
struct FingerprintLanes {
  static constexpr size_t kWords = 8;
  static constexpr size_t kLanes = 2 * kWords;  // the lower halves, then the upper ones
  static constexpr size_t kBlockBytes = kWords * sizeof(uint64_t);
  uint64_t plain[kLanes] = {};
  uint64_t weighted[kLanes] = {};
};

// All element types are computed in one of two: float32 (float16, bfloat16, 16-bit integers) or
// float64 (32- and 64-bit integers). `decode` gets them there, at most kChunk elements a call.
struct Kernels {
  const char* name;
  // Add the elements to `into`.
  void (*stats_f32)(const float* x, size_t count, TensorStats& into);
  void (*stats_f64)(const double* x, size_t count, TensorStats& into);
  // The same, counting each element in `slots` too.
  void (*stats_slots_f32)(const float* x, size_t count, TensorStats& into, SlotTables& slots);
  void (*stats_slots_f64)(const double* x, size_t count, TensorStats& into, SlotTables& slots);

  void (*decode_f16)(const void* from, size_t count, float* to);
  void (*decode_bf16)(const void* from, size_t count, float* to);
  void (*decode_i16)(const void* from, size_t count, float* to);
  void (*decode_u16)(const void* from, size_t count, float* to);
  void (*decode_i32)(const void* from, size_t count, double* to);
  void (*decode_u32)(const void* from, size_t count, double* to);
  void (*decode_i64)(const void* from, size_t count, double* to);
  void (*decode_u64)(const void* from, size_t count, double* to);

  // One element for each unit: sets the marks of each, returns how many lie in [low, high].
  uint64_t (*mark_row_f32)(const float* x, size_t count, float low, float high, uint8_t* alive,
                           uint8_t* moving);
  uint64_t (*mark_row_f64)(const double* x, size_t count, double low, double high, uint8_t* alive,
                           uint8_t* moving);
  // All elements belong to one unit.
  RunMarks (*mark_run_f32)(const float* x, size_t count, float low, float high);
  RunMarks (*mark_run_f64)(const double* x, size_t count, double low, double high);

  // Adds `count` blocks of kBlockBytes, which may lie at any address.
  void (*add_blocks)(const std::byte* blocks, size_t count, FingerprintLanes& into);
};

// The plain loops that every other set is tested against (stats_scalar.cc).
const Kernels& scalar_kernels();
// Those compiled in that this processor can run, slowest (scalar) first.
std::span<const Kernels* const> supported_kernels();
// The last of `supported_kernels()`; found once.
const Kernels& best_kernels();

// As the functions of tensor_stats.h, with the kernels given: for tests and benchmarks.
TensorStats compute_stats_with(const Kernels& kernels, const TensorView& view,
                               Histogram* histogram = nullptr);
double compute_product_with(const Kernels& kernels, const TensorView& view);
uint64_t mark_units_with(const Kernels& kernels, const TensorView& view, uint32_t unit_dim,
                         double low, double high, uint8_t* alive, uint8_t* moving);

}  // namespace paramedic::stats
