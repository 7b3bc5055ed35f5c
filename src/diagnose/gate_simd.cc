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
#include <algorithm>

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
    uint64_t places = 0;
    for (size_t i = 0; i < (lanes + 7) / 8; ++i) places |= uint64_t{bits[i]} << (8 * i);
    // One place in ten passes by chance; hardly one does by its hash too.
    GateHit found = {from, lanes, 0};
    for (; places != 0; places &= places - 1) {
      const auto lane = static_cast<uint64_t>(__builtin_ctzll(places));
      found.places |= prefix_bit(tables.prefixes, text + from + lane) << lane;
    }
    if (found.places != 0) return found;
  }
  return {from, 0, 0};
}

HWY_ATTR uint64_t count_byte(const char* text, size_t bytes, char byte) {
  const hn::ScalableTag<uint8_t> d;
  const hn::Repartition<uint64_t, decltype(d)> wide;
  const size_t lanes = hn::Lanes(d);
  constexpr size_t kVectorsMax = 255;  // as many as a lane of eight bits can count
  const auto wanted = hn::Set(d, static_cast<uint8_t>(byte));
  uint64_t total = 0;
  size_t at = 0;
  while (at + lanes <= bytes) {
    auto counts = hn::Zero(d);
    for (size_t i = 0; i < kVectorsMax && at + lanes <= bytes; ++i, at += lanes) {
      const auto here = hn::LoadU(d, reinterpret_cast<const uint8_t*>(text) + at);
      counts = hn::Sub(counts, hn::VecFromMask(d, hn::Eq(here, wanted)));
    }
    total += hn::GetLane(hn::SumOfLanes(wide, hn::SumsOf8(counts)));
  }
  for (; at < bytes; ++at) total += text[at] == byte ? 1 : 0;
  return total;
}

}  // namespace paramedic::diagnose::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace paramedic::diagnose {
namespace {

struct Functions {
  GateHit (*block)(const GateTables&, const char*, size_t, size_t);
  uint64_t (*count)(const char*, size_t, char);
};

Functions plain_functions() {
  return {[](const GateTables&, const char*, size_t, size_t from) { return GateHit{from, 0, 0}; },
          [](const char* text, size_t bytes, char byte) {
            return static_cast<uint64_t>(std::count(text, text + bytes, byte));
          }};
}

// Those of the best instruction set that this machine has.
const Functions& functions() {
  static const Functions kBest = []() -> Functions {
#if HWY_ARCH_X86_64
    __builtin_cpu_init();
#if HWY_TARGETS & HWY_AVX2
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") &&
        __builtin_cpu_supports("fma")) {
      return {N_AVX2::gate_block, N_AVX2::count_byte};
    }
#endif
#if HWY_TARGETS & HWY_SSE4
    if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul")) {
      return {N_SSE4::gate_block, N_SSE4::count_byte};
    }
#endif
    return plain_functions();
#elif HWY_STATIC_TARGET != HWY_SCALAR && HWY_STATIC_TARGET != HWY_EMU128
    return {HWY_STATIC_DISPATCH(gate_block), HWY_STATIC_DISPATCH(count_byte)};
#else
    return plain_functions();
#endif
  }();
  return kBest;
}

}  // namespace

GateHit gate_block(const GateTables& tables, const char* text, size_t bytes, size_t from) {
  return functions().block(tables, text, bytes, from);
}

uint64_t count_byte(std::string_view text, char byte) {
  return functions().count(text.data(), text.size(), byte);
}

}  // namespace paramedic::diagnose
#endif  // HWY_ONCE
