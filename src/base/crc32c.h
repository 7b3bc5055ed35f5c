#pragma once
// CRC-32C (Castagnoli, RFC 3720 appendix B.4). Uses the SSE 4.2 instruction where the CPU has it,
// chosen at run time. Thread-safe.

#include <cstddef>
#include <cstdint>

namespace paramedic {

// The CRC of `bytes` bytes at `data`, continuing from `seed` (0 for a new one):
// crc32c(b, n, crc32c(a, m)) is the CRC of a followed by b.
uint32_t crc32c(const void* data, size_t bytes, uint32_t seed = 0);

// The table version that the instruction is tested against.
uint32_t crc32c_portable(const void* data, size_t bytes, uint32_t seed = 0);

}  // namespace paramedic
