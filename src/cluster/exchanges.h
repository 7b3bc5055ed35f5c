#pragma once
// How long collectives take once all ranks have come to them: time of the network, not of whoever
// came late. Told apart by a fit over their sizes: what every call costs, and what every byte. For
// groups whose ranks share this machine's clock. Bounded; one thread.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "cluster/groups.h"

namespace paramedic::cluster {

struct Exchange {
  std::string operation;
  double bytes = 0;  // of the input of a rank
  double ms = 0;     // from the last rank's coming to the leaving of half of them
  int64_t left_ns = 0;
};

// Milliseconds of a call of `bytes`: call_ms + bytes * byte_ms.
struct SizeFit {
  std::string operation;
  double call_ms = 0;
  double byte_ms = 0;
  double smallest_bytes = 0;
  double smallest_ms = 0;
  double largest_bytes = 0;
  double largest_ms = 0;
};

class Exchanges {
 public:
  // Takes the calls that are complete since the last look.
  void look(const Groups& groups);
  // Those that were left within `ms` before the newest one.
  [[nodiscard]] std::deque<Exchange> newest(double ms) const;

 private:
  void take(const Groups& groups, const Group& group, int64_t number);

  std::map<std::string, int64_t> next_;  // number of the next call, by the key of its group
  std::deque<Exchange> exchanges_;
};

// Of the operation that takes most of the time; nothing where its sizes do not differ enough.
std::optional<SizeFit> fit_over_sizes(const std::deque<Exchange>& exchanges);

}  // namespace paramedic::cluster
