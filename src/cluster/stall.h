#pragma once
// Who waits for whom: the calls in which ranks are blocked, as a graph over all groups, and the
// ranks at its ends, for which all the others wait. A function of the job as it stands; linear in
// the members of the groups in which somebody waits.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cluster/job.h"
#include "cluster/patience.h"

namespace paramedic::cluster {

// A rank inside of a call that does not return.
struct Waiter {
  int32_t rank = 0;
  std::string group;      // the framework's name
  int64_t number = 0;     // of the call in its group
  std::string operation;  // in words
  store::CallSite where;  // line 0: not known
  int64_t since_ns = 0;
  bool is_transfer = false;  // it waits for one other rank
  int32_t peer = -1;         // of a transfer; -1: it takes from any rank of the group
  bool from_flight = false;  // known from the flight recorder, not from a call seen in Python
};

// A rank for which others wait and that waits for nobody.
struct Suspect {
  int32_t rank = 0;
  Doing doing = Doing::kUnknown;
  store::CallSite where;  // its innermost own line, line 0: not known
  std::string what;       // what it does, as the end of "rank 2 …"
  int64_t since_ns = 0;   // since when it does that
};

struct Stall {
  std::vector<Waiter> waiters;    // by rank
  std::vector<Suspect> suspects;  // by rank; empty: they wait for each other, or for the network
  Doing doing = Doing::kInside;   // what decides: of the suspects, the one that may take longest
  // Of those that wait for each other: the one that is to blame (culprit.h).
  std::optional<int32_t> culprit;
  int64_t since_ns = 0;   // when it began
  bool is_start = false;  // nothing has been exchanged before
};

// Those that have lasted for a second at least.
std::vector<Stall> find_stalls(const Job& job);

}  // namespace paramedic::cluster
