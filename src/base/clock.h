#pragma once
// Time behind a seam: `real_clock()` for the program, `VirtualClock` for tests, which moves only
// when told. Thread-safe.

#include <atomic>
#include <cstdint>

namespace paramedic {

class Clock {
 public:
  Clock() = default;
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  virtual ~Clock() = default;

  // Nanoseconds since 1970 UTC; may jump when the machine's clock is set.
  [[nodiscard]] virtual int64_t wall_ns() const = 0;
  // Nanoseconds since some fixed moment; never goes back.
  [[nodiscard]] virtual int64_t monotonic_ns() const = 0;
};

const Clock& real_clock();

class VirtualClock : public Clock {
 public:
  explicit VirtualClock(int64_t start_ns = 0) : now_ns_(start_ns) {}
  [[nodiscard]] int64_t wall_ns() const override { return now_ns_.load(); }
  [[nodiscard]] int64_t monotonic_ns() const override { return now_ns_.load(); }
  void advance(int64_t ns) { now_ns_ += ns; }

 private:
  std::atomic<int64_t> now_ns_;
};

}  // namespace paramedic
