#include "base/clock.h"

#include <ctime>

namespace paramedic {
namespace {

int64_t read_ns(clockid_t id) {
  timespec now{};
  clock_gettime(id, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

class RealClock : public Clock {
 public:
  [[nodiscard]] int64_t wall_ns() const override { return read_ns(CLOCK_REALTIME); }
  [[nodiscard]] int64_t monotonic_ns() const override { return read_ns(CLOCK_MONOTONIC); }
};

}  // namespace

const Clock& real_clock() {
  static const RealClock clock;
  return clock;
}

}  // namespace paramedic
