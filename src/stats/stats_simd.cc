// The kernels by Highway, compiled from this one file once for each instruction set.
// Only Highway's headers are used: its own dispatch would need libhwy at run time, and the probe
// may depend on nothing but libc. The part that is compiled several times calls no function of the
// standard library, since the linker could keep the copy that an older processor cannot run.

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif
// Highway's own assertions would call into libhwy.
#define HWY_IS_DEBUG_BUILD 0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stats/stats_simd.cc"
#include "hwy/foreach_target.h"
// foreach_target.h has to stand before highway.h.
#include "hwy/highway.h"
#include "stats/kernels.h"

// What is left for HWY_SCALAR is stats_scalar.cc.
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace paramedic::stats::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#include "stats/plain_loops.inc"

// Lanes are counted in 32 bits and the totals of each block are summed apart, which bounds both
// the counters and the rounding error.
constexpr size_t kBlock = 4096;
constexpr double kDoubleMax = 1.7976931348623157e308;

// Counts the lanes where a mask is set. AVX-512 has its masks in registers of their own, from where
// a population count is cheapest; elsewhere a mask is -1 in each set lane of a vector.
template <class D>
class LaneCounter {
 public:
  // Constructors are written out, since those that the compiler makes lack HWY_ATTR.
#if HWY_TARGET == HWY_AVX3
  HWY_ATTR LaneCounter() : count_(0) {}
  HWY_ATTR void add(hn::Mask<D> mask) { count_ += hn::CountTrue(D(), mask); }
  HWY_ATTR uint64_t total() const { return count_; }

 private:
  uint64_t count_;
#else
  using DInt = hn::RebindToSigned<D>;
  HWY_ATTR LaneCounter() : count_(hn::Zero(DInt())) {}
  HWY_ATTR void add(hn::Mask<D> mask) {
    const DInt d;
    count_ = hn::Sub(count_, hn::VecFromMask(d, hn::RebindMask(d, mask)));
  }
  HWY_ATTR uint64_t total() const {
    return static_cast<uint64_t>(hn::GetLane(hn::SumOfLanes(DInt(), count_)));
  }

 private:
  hn::Vec<DInt> count_;
#endif
};

using D64 = hn::ScalableTag<double>;

HWY_ATTR double sum_lanes(hn::Vec<D64> v) { return hn::GetLane(hn::SumOfLanes(D64(), v)); }

struct Sums {
  hn::Vec<D64> plain;
  hn::Vec<D64> absolute;
  hn::Vec<D64> squares;

  HWY_ATTR Sums() : plain(hn::Zero(D64())), absolute(plain), squares(plain) {}

  HWY_ATTR void add(hn::Vec<D64> v) {
    plain = hn::Add(plain, v);
    absolute = hn::Add(absolute, hn::Abs(v));
    squares = hn::MulAdd(v, v, squares);
  }
};

// One block of whole vectors. A block is first read as if all of it were finite, which makes the
// loop nearly twice as fast; `sum_abs` tells whether that was wrong, and then the block, still in
// the cache, is read again with masks. Returns false, with `into` untouched, in that case.
template <bool kAllFinite, bool kCountSlots, typename T>
HWY_ATTR bool add_block(const T* x, size_t count, TensorStats& into, SlotTables* slots) {
  const hn::ScalableTag<T> d;
  using D = decltype(d);
  const auto zero = hn::Zero(d);
  const auto infinity = hn::Inf(d);
  const auto negative_infinity = hn::Neg(infinity);
  auto min = infinity;
  auto max = negative_infinity;
  // Two sets, so that the two halves of a vector of floats do not wait for each other.
  Sums sums_low;
  Sums sums_high;
  LaneCounter<D> zeros, negatives, nans, positive_infs, negative_infs;
  for (size_t i = 0; i < count; i += hn::Lanes(d)) {
    auto v = hn::LoadU(d, x + i);
    zeros.add(hn::Eq(v, zero));
    // In between the vector instructions, since it keeps other units busy.
    if constexpr (kCountSlots && sizeof(T) == sizeof(float)) {
      for (size_t k = 0; k < hn::Lanes(d); k += 4) count_four(x + i + k, slots->counts + k % 8);
    }
    if constexpr (kAllFinite) {
      min = hn::Min(v, min);
      max = hn::Max(v, max);
    } else {
      const auto finite = hn::Lt(hn::Abs(v), infinity);
      nans.add(hn::IsNaN(v));
      positive_infs.add(hn::Eq(v, infinity));
      negative_infs.add(hn::Eq(v, negative_infinity));
      min = hn::IfThenElse(finite, hn::Min(v, min), min);
      max = hn::IfThenElse(finite, hn::Max(v, max), max);
      v = hn::IfThenElseZero(finite, v);
    }
    negatives.add(hn::Lt(v, zero));
    if constexpr (sizeof(T) == sizeof(double)) {
      sums_low.add(v);
    } else {
      const hn::Rebind<float, D64> half;
      if constexpr (kAllFinite) {
        // Loading each half again is cheaper than to move the upper one down.
        sums_low.add(hn::PromoteTo(D64(), hn::LoadU(half, x + i)));
        sums_high.add(hn::PromoteTo(D64(), hn::LoadU(half, x + i + hn::Lanes(half))));
      } else {
        sums_low.add(hn::PromoteTo(D64(), hn::LowerHalf(half, v)));
        sums_high.add(hn::PromoteTo(D64(), hn::UpperHalf(half, v)));
      }
    }
  }
  const double sum_abs = sum_lanes(hn::Add(sums_low.absolute, sums_high.absolute));
  // Written so that NaN is refused too.
  if (kAllFinite && !(sum_abs <= kDoubleMax)) return false;
  into.count += count;
  into.nan += nans.total();
  into.positive_inf += positive_infs.total();
  into.negative_inf += negative_infs.total();
  into.zero += zeros.total();
  into.negative += negatives.total();
  // Adding +0 makes a zero positive, so that the result does not depend on the order.
  const double lowest = static_cast<double>(hn::GetLane(hn::MinOfLanes(d, min))) + 0.0;
  const double highest = static_cast<double>(hn::GetLane(hn::MaxOfLanes(d, max))) + 0.0;
  into.min = lowest < into.min ? lowest : into.min;
  into.max = highest > into.max ? highest : into.max;
  into.sum += sum_lanes(hn::Add(sums_low.plain, sums_high.plain));
  into.sum_abs += sum_abs;
  into.sum_squares += sum_lanes(hn::Add(sums_low.squares, sums_high.squares));
  return true;
}

// Whole vectors; returns how many elements that were.
template <bool kCountSlots, typename T>
HWY_ATTR size_t add_vectors(const T* x, size_t count, TensorStats& into, SlotTables* slots) {
  const size_t whole = count - count % hn::Lanes(hn::ScalableTag<T>());
  for (size_t begin = 0; begin < whole; begin += kBlock) {
    const size_t block = whole - begin < kBlock ? whole - begin : kBlock;
    if (!add_block<true, kCountSlots>(x + begin, block, into, slots)) {
      add_block<false, false>(x + begin, block, into, slots);
    }
  }
  return whole;
}

HWY_ATTR void stats_f32(const float* x, size_t count, TensorStats& into) {
  const size_t done = add_vectors<false>(x, count, into, nullptr);
  if (done < count) scalar_kernels().stats_f32(x + done, count - done, into);
}

HWY_ATTR void stats_f64(const double* x, size_t count, TensorStats& into) {
  const size_t done = add_vectors<false>(x, count, into, nullptr);
  if (done < count) scalar_kernels().stats_f64(x + done, count - done, into);
}

HWY_ATTR void stats_slots_f32(const float* x, size_t count, TensorStats& into, SlotTables& slots) {
  const size_t done = add_vectors<true>(x, count, into, &slots);
  if (done < count) scalar_kernels().stats_slots_f32(x + done, count - done, into, slots);
}

HWY_ATTR void stats_slots_f64(const double* x, size_t count, TensorStats& into, SlotTables& slots) {
  float slot_floats[kChunk];
  for (size_t begin = 0; begin < count; begin += kChunk) {
    const size_t part = count - begin < kChunk ? count - begin : kChunk;
    stats_f64(x + begin, part, into);
    to_slot_floats(x + begin, part, slot_floats);
    count_slots(slot_floats, part, slots);
  }
}

HWY_ATTR void convert_f16(const void* from, size_t count, float* to) {
  const hn::ScalableTag<float> d32;
  const uint16_t* x = static_cast<const uint16_t*>(from);
  const size_t lanes = hn::Lanes(d32);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
#if HWY_TARGET == HWY_SSE4
    // Without a conversion instruction, as f16_value in element.h; Highway's own gives Inf and NaN
    // as finite numbers.
    const hn::ScalableTag<uint32_t> bits32;
    const auto bits =
        hn::PromoteTo(bits32, hn::LoadU(hn::Rebind<uint16_t, decltype(d32)>(), x + i));
    const auto shifted = hn::ShiftLeft<13>(hn::And(bits, hn::Set(bits32, 0x7fff)));
    const auto scaled = hn::Mul(hn::BitCast(d32, shifted), hn::Set(d32, 0x1p112F));
    const auto ones = hn::Or(shifted, hn::Set(bits32, 0x7f800000));
    const auto finite = hn::Lt(shifted, hn::Set(bits32, 0x7c00U << 13));
    const auto value = hn::IfThenElse(finite, hn::BitCast(bits32, scaled), ones);
    const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(bits32, 0x8000)));
    hn::StoreU(hn::BitCast(d32, hn::Or(value, sign)), d32, to + i);
#else
    const hn::Rebind<hwy::float16_t, decltype(d32)> d16;
    const auto half = hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(x + i));
    hn::StoreU(hn::PromoteTo(d32, half), d32, to + i);
#endif
  }
  if (i < count) scalar_kernels().decode_f16(x + i, count - i, to + i);
}

}  // namespace

extern const Kernels kKernels;
const Kernels kKernels = {
#if HWY_TARGET == HWY_AVX3
    .name = "avx512",
#elif HWY_TARGET == HWY_AVX2
    .name = "avx2",
#elif HWY_TARGET == HWY_SSE4
    .name = "sse4",
#else
    .name = "baseline",  // of another architecture: NEON on ARM
#endif
    .stats_f32 = stats_f32,
    .stats_f64 = stats_f64,
    .stats_slots_f32 = stats_slots_f32,
    .stats_slots_f64 = stats_slots_f64,
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

}  // namespace paramedic::stats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
#if HWY_ARCH_X86_64
#include <cpuid.h>
#endif

namespace paramedic::stats {
namespace {

// A fixed table, since nothing may be allocated: scalar and at most three more.
struct Supported {
  const Kernels* kernels[4] = {};
  size_t count = 0;

  void add(const Kernels& more) { kernels[count++] = &more; }
};

#if HWY_ARCH_X86_64
// clang 14 knows no name for this one.
bool cpu_has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

Supported find_supported() {
  Supported found;
  found.add(scalar_kernels());
#if HWY_ARCH_X86_64
  // Each set needs all features that Highway compiles it with (set_macros-inl.h); the operating
  // system's support of the registers is part of the compiler's answer.
  __builtin_cpu_init();
  const bool sse4 = __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.2") &&
                    __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
  const bool avx2 = sse4 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                    __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma") &&
                    cpu_has_f16c();
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw");
#if HWY_TARGETS & HWY_SSE4
  if (sse4) found.add(N_SSE4::kKernels);
#endif
#if HWY_TARGETS & HWY_AVX2
  if (avx2) found.add(N_AVX2::kKernels);
#endif
#if HWY_TARGETS & HWY_AVX3
  if (avx512) found.add(N_AVX3::kKernels);
#endif
#elif HWY_STATIC_TARGET != HWY_SCALAR && HWY_STATIC_TARGET != HWY_EMU128
  found.add(HWY_STATIC_DISPATCH(kKernels));
#endif
  return found;
}

const Supported& supported() {
  static const Supported found = find_supported();
  return found;
}

}  // namespace

std::span<const Kernels* const> supported_kernels() {
  return {supported().kernels, supported().count};
}

const Kernels& best_kernels() { return *supported().kernels[supported().count - 1]; }

}  // namespace paramedic::stats
#endif  // HWY_ONCE
