#pragma once
// Bytes of the job that are kept as they are at a moment. The owner sees to it that both places
// stay.

#include <cstring>

#include "probe/interpreter.h"
#include "probe/probe.h"

namespace paramedic::probe {

// Where the ends are as they were, all is: the state of a generator of random numbers.
inline void keep_piece(const paramedic_gate_piece& piece) {
  constexpr int64_t kEndBytes = 24;
  const char* live = static_cast<const char*>(object_at(piece.live));
  char* kept = static_cast<char*>(object_at(piece.kept));
  if (piece.bytes > 2 * kEndBytes && std::memcmp(live, kept, kEndBytes) == 0) {
    const int64_t end = piece.bytes - kEndBytes;
    if (std::memcmp(live + end, kept + end, kEndBytes) == 0) return;
  }
  std::memcpy(kept, live, static_cast<size_t>(piece.bytes));
}

}  // namespace paramedic::probe
