#pragma once
// Counting into a table, the slow part of a histogram: two increments of the same counter wait for
// each other, so eight tables take turns. 8-17 kB, made for the stack. Not thread-safe.

#include <array>
#include <cstddef>
#include <cstdint>

namespace paramedic::stats {

template <size_t kSlots>
class CountTables {
 public:
  // Callers add at most this many between two calls of `flush`, so that 32 bits hold the counts.
  static constexpr size_t kMaxBetweenFlushes = size_t{1} << 30;

  // Counts slot_of(x[i]), which must be below kSlots.
  template <typename T, typename SlotOf>
  void add(const T* x, size_t count, SlotOf slot_of) {
    size_t i = 0;
    for (; i + kTables <= count; i += kTables) {
      for (size_t k = 0; k < kTables; ++k) ++tables_[k][slot_of(x[i + k])];
    }
    for (; i < count; ++i) ++tables_[0][slot_of(x[i])];
  }

  void flush() {
    for (auto& table : tables_) {
      for (size_t slot = 0; slot < kSlots; ++slot) totals_[slot] += table[slot];
      table = {};
    }
  }

  // Valid after `flush`.
  [[nodiscard]] uint64_t operator[](size_t slot) const { return totals_[slot]; }

 private:
  static constexpr size_t kTables = 8;
  std::array<std::array<uint32_t, kSlots>, kTables> tables_ = {};
  std::array<uint64_t, kSlots> totals_ = {};
};

}  // namespace paramedic::stats
