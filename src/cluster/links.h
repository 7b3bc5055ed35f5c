#pragma once
// The connections between the ranks, from the `links` events of the agent's collector: about every
// two seconds {links: [{here, there: "ADDRESS:PORT", rtt_us, min_rtt_us or null, sent_bytes,
// received_bytes, segments, sent_again, busy_us, peer_full_us, queued_bytes}]} of a process
// (origin.pid), its TCP connections as the kernel counts them since they began: busy_us while
// something was on its way, of which for peer_full_us the other side took nothing in. Bounded; one
// thread.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cluster/ranks.h"
#include "store/rows.h"

namespace paramedic::cluster {

// What one rank sends another one, over all connections between them.
struct Link {
  int32_t from = 0;
  int32_t to = 0;
  std::optional<double> rtt_ms;  // the shortest round trip: what no queue adds to
  double sent_bytes = 0;         // and acknowledged, within the time that was asked for
  double busy_ms = 0;            // while it was on its way
  double again_share = 0;        // of the packets, those that were sent again
};

class Links {
 public:
  // True when the row was one of links.
  bool on_event(const store::EventRow& row);
  // Between the ranks that are known here, over the newest `ms`.
  [[nodiscard]] std::vector<Link> newest(const Ranks& ranks, double ms) const;

 private:
  struct Sample {
    int64_t time_ns = 0;
    double sent_bytes = 0;
    double busy_ms = 0;
    double segments = 0;
    double sent_again = 0;
  };
  struct Connection {
    std::optional<double> rtt_ms;
    std::deque<Sample> samples;
  };
  using Ends = std::pair<std::string, std::string>;  // here, there

  static void add(const Connection& connection, int64_t since_ns, Link& link);

  std::map<int32_t, std::map<Ends, Connection>> by_pid_;
  int64_t newest_ns_ = 0;
};

}  // namespace paramedic::cluster
