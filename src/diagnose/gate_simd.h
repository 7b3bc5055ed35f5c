#pragma once
// What reads every byte of a log: the vector part of the gate (gate.h) and the count of line ends,
// one version for each instruction set, chosen at run time.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace paramedic::diagnose {

// Four tables of 16 bytes each, one after the other (gate.h, Gate::Tables).
struct GateTables {
  const uint8_t* low;
  const uint8_t* high;
  const uint64_t* prefixes;  // 1024 words: a bit for each hash that a literal begins with
};

inline uint32_t prefix_hash(const char* text) {
  uint32_t bytes = 0;
  std::memcpy(&bytes, text, sizeof bytes);
  return (bytes * 0x9e3779b1U) >> 16U;
}

// 1 where some literal's first four bytes have the hash of those at `text`.
inline uint64_t prefix_bit(const uint64_t* prefixes, const char* text) {
  const uint32_t hash = prefix_hash(text);
  return prefixes[hash / 64] >> (hash % 64) & 1U;
}

inline void set_prefix_bit(uint64_t* prefixes, const char* text) {
  const uint32_t hash = prefix_hash(text);
  prefixes[hash / 64] |= uint64_t{1} << (hash % 64);
}

struct GateHit {
  size_t at = 0;        // where the block starts whose places are given
  size_t bytes = 0;     // of that block; 0: too little text is left for a vector
  uint64_t places = 0;  // bit i: a literal may start at `at` + i
};

// Goes on from `from` to the first block with a place where a literal may start, or to the end.
GateHit gate_block(const GateTables& tables, const char* text, size_t bytes, size_t from);

// How often `byte` occurs in `text`.
uint64_t count_byte(std::string_view text, char byte);

}  // namespace paramedic::diagnose
