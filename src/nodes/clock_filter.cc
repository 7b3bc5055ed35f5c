#include "nodes/clock_filter.h"

#include <algorithm>

namespace paramedic::nodes {
namespace {

// About half a minute of parcels: clocks part by less than a millisecond meanwhile.
constexpr size_t kSamplesMax = 64;

}  // namespace

void ClockFilter::add(int64_t sent_ns, int64_t received_ns, int64_t answered_ns, int64_t back_ns,
                      int64_t grain_ns) {
  const int64_t delay_ns = (back_ns - sent_ns) - (answered_ns - received_ns);
  if (back_ns < sent_ns || answered_ns < received_ns || delay_ns < 0) return;  // a clock was set
  const int64_t offset_ns = ((sent_ns - received_ns) + (back_ns - answered_ns)) / 2;
  samples_.push_back({offset_ns, delay_ns / 2 + grain_ns});
  if (samples_.size() > kSamplesMax) samples_.pop_front();
}

std::optional<ClockOffset> ClockFilter::offset() const {
  if (samples_.empty()) return std::nullopt;
  return *std::min_element(samples_.begin(), samples_.end(),
                           [](const auto& a, const auto& b) { return a.error_ns < b.error_ns; });
}

}  // namespace paramedic::nodes
