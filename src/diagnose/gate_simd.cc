// The vector part of the gate by Highway, compiled from this one file once for each instruction
// set; only Highway's headers are used, so that the program needs no libhwy.

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_AVX3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif
// Highway's own assertions would call into libhwy.
#define HWY_IS_DEBUG_BUILD 0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "diagnose/gate_simd.cc"
#include "hwy/foreach_target.h"
// foreach_target.h has to stand before highway.h.
#include "diagnose/gate_simd.h"
#include "hwy/highway.h"

#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace paramedic::diagnose::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

HWY_ATTR GateHit gate_block(const GateTables& tables, const char* text, size_t bytes, size_t from) {
  const hn::ScalableTag<uint8_t> d;
  const size_t lanes = hn::Lanes(d);
  constexpr size_t kLookAhead = 3;
  const auto low0 = hn::LoadDup128(d, tables.low);
  const auto low1 = hn::LoadDup128(d, tables.low + 16);
  const auto low2 = hn::LoadDup128(d, tables.low + 32);
  const auto low3 = hn::LoadDup128(d, tables.low + 48);
  const auto high0 = hn::LoadDup128(d, tables.high);
  const auto high1 = hn::LoadDup128(d, tables.high + 16);
  const auto high2 = hn::LoadDup128(d, tables.high + 32);
  const auto high3 = hn::LoadDup128(d, tables.high + 48);
  const auto half = hn::Set(d, uint8_t{15});
  const auto zero = hn::Zero(d);
  for (; from + lanes + kLookAhead <= bytes; from += lanes) {
    const auto* at = reinterpret_cast<const uint8_t*>(text) + from;
    const auto b0 = hn::LoadU(d, at);
    const auto b1 = hn::LoadU(d, at + 1);
    const auto b2 = hn::LoadU(d, at + 2);
    const auto b3 = hn::LoadU(d, at + 3);
    const auto r0 = hn::And(hn::TableLookupBytes(low0, hn::And(b0, half)),
                            hn::TableLookupBytes(high0, hn::ShiftRight<4>(b0)));
    const auto r1 = hn::And(hn::TableLookupBytes(low1, hn::And(b1, half)),
                            hn::TableLookupBytes(high1, hn::ShiftRight<4>(b1)));
    const auto r2 = hn::And(hn::TableLookupBytes(low2, hn::And(b2, half)),
                            hn::TableLookupBytes(high2, hn::ShiftRight<4>(b2)));
    const auto r3 = hn::And(hn::TableLookupBytes(low3, hn::And(b3, half)),
                            hn::TableLookupBytes(high3, hn::ShiftRight<4>(b3)));
    const auto hit = hn::Ne(hn::And(hn::And(r0, r1), hn::And(r2, r3)), zero);
    if (hn::AllFalse(d, hit)) continue;
    uint8_t bits[8] = {};
    hn::StoreMaskBits(d, hit, bits);
    GateHit found = {from, lanes, 0};
    for (size_t i = 0; i < (lanes + 7) / 8; ++i) found.places |= uint64_t{bits[i]} << (8 * i);
    return found;
  }
  return {from, 0, 0};
}

}  // namespace paramedic::diagnose::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace paramedic::diagnose {

GateHit gate_block(const GateTables& tables, const char* text, size_t bytes, size_t from) {
#if HWY_ARCH_X86_64
  using Function = GateHit (*)(const GateTables&, const char*, size_t, size_t);
  static const Function best = []() -> Function {
    __builtin_cpu_init();
#if HWY_TARGETS & HWY_AVX2
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") &&
        __builtin_cpu_supports("fma")) {
      return N_AVX2::gate_block;
    }
#endif
#if HWY_TARGETS & HWY_SSE4
    if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul")) {
      return N_SSE4::gate_block;
    }
#endif
    return [](const GateTables&, const char*, size_t, size_t from_here) {
      return GateHit{from_here, 0, 0};
    };
  }();
  return best(tables, text, bytes, from);
#elif HWY_STATIC_TARGET != HWY_SCALAR && HWY_STATIC_TARGET != HWY_EMU128
  return HWY_STATIC_DISPATCH(gate_block)(tables, text, bytes, from);
#else
  return {from, 0, 0};
#endif
}

}  // namespace paramedic::diagnose
#endif  // HWY_ONCE
