// The reference: one element after the other, nothing clever. It also finishes what is left over
// when a vector kernel has taken all whole vectors.

#include <bit>
#include <cmath>

#include "stats/element.h"
#include "stats/kernels.h"

namespace paramedic::stats {
namespace {

#include "stats/plain_loops.inc"

// Totals of each block are summed apart, which bounds the rounding error.
constexpr size_t kBlock = 4096;

template <typename T>
void add_stats(const T* x, size_t count, TensorStats& into) {
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t end = count - begin < kBlock ? count : begin + kBlock;
    TensorStats block;
    for (size_t i = begin; i < end; ++i) add_element(static_cast<double>(x[i]), 1, block);
    merge(into, block);
  }
}

void add_stats_slots_f32(const float* x, size_t count, TensorStats& into, SlotTables& slots) {
  add_stats(x, count, into);
  count_slots(x, count, slots);
}

void add_stats_slots_f64(const double* x, size_t count, TensorStats& into, SlotTables& slots) {
  add_stats(x, count, into);
  float slot_floats[kChunk];
  for (size_t begin = 0; begin < count; begin += kChunk) {
    const size_t part = count - begin < kChunk ? count - begin : kChunk;
    to_slot_floats(x + begin, part, slot_floats);
    count_slots(slot_floats, part, slots);
  }
}

void convert_f16(const void* from, size_t count, float* to) {
  const uint16_t* x = static_cast<const uint16_t*>(from);
  for (size_t i = 0; i < count; ++i) to[i] = f16_value(x[i]);
}

constexpr Kernels kScalar = {
    .name = "scalar",
    .stats_f32 = add_stats<float>,
    .stats_f64 = add_stats<double>,
    .stats_slots_f32 = add_stats_slots_f32,
    .stats_slots_f64 = add_stats_slots_f64,
    .decode_f16 = convert_f16,
    .decode_bf16 = convert_bf16,
    .decode_i16 = convert<int16_t, float>,
    .decode_u16 = convert<uint16_t, float>,
    .decode_i32 = convert<int32_t, double>,
    .decode_u32 = convert<uint32_t, double>,
    .decode_i64 = convert<int64_t, double>,
    .decode_u64 = convert<uint64_t, double>,
    .mark_row_f32 = mark_row<float>,
    .mark_row_f64 = mark_row<double>,
    .mark_run_f32 = mark_run<float, uint32_t>,
    .mark_run_f64 = mark_run<double, uint64_t>,
    .add_blocks = add_blocks,
};

}  // namespace

const Kernels& scalar_kernels() { return kScalar; }

}  // namespace paramedic::stats
