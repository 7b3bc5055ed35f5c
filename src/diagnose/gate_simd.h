#pragma once
// The vector part of the gate (gate.h), one version for each instruction set, chosen at run time.

#include <cstddef>
#include <cstdint>

namespace paramedic::diagnose {

// Four tables of 16 bytes each, one after the other (gate.h, Gate::Tables).
struct GateTables {
  const uint8_t* low;
  const uint8_t* high;
};

struct GateHit {
  size_t at = 0;        // where the block starts whose places are given
  size_t bytes = 0;     // of that block; 0: too little text is left for a vector
  uint64_t places = 0;  // bit i: a literal may start at `at` + i
};

// Goes on from `from` to the first block with a place where a literal may start, or to the end.
GateHit gate_block(const GateTables& tables, const char* text, size_t bytes, size_t from);

}  // namespace paramedic::diagnose
