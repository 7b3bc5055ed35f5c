#pragma once
// How much this node's clock shows more than the collector's, from round trips: of the newest ones
// the quickest counts, since only its way there and back can be nearly equal (the clock filter of
// NTP, RFC 5905, section 10). A value; one thread.

#include <cstdint>
#include <deque>
#include <optional>

#include "nodes/look.h"

namespace paramedic::nodes {

class ClockFilter {
 public:
  // Sent and came back by this node's clock, received and answered by the collector's.
  // `grain_ns`: by how much the latter are coarser than a clock.
  void add(int64_t sent_ns, int64_t received_ns, int64_t answered_ns, int64_t back_ns,
           int64_t grain_ns);
  [[nodiscard]] std::optional<ClockOffset> offset() const;

 private:
  std::deque<ClockOffset> samples_;  // newest last
};

}  // namespace paramedic::nodes
