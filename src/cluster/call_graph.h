#pragma once
// Who waits for whom, by the calls of a book alone: in which call of which group ranks stand, who
// has not come to it, and at whom the ways from it end. The graph is over calls, as in stall.h:
// 10,000 ranks in one collective are one node. Linear in the members of the groups.

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "cluster/call_book.h"

namespace paramedic::cluster {

// A call that ranks have entered and not left.
struct OpenCall {
  size_t group = 0;    // in CallBook::groups
  int64_t number = 0;  // of the call; of a transfer meaningless
  bool is_transfer = false;
  std::vector<int32_t> waiters;  // ascending
  std::vector<int32_t> missing;  // members that have not come to it
  std::vector<int32_t> unknown;  // members of which that is not known
  int64_t since_ns = 0;          // the first one waits since then; 0 = not known
  uint32_t signature = kUnknownSignature;
  uint32_t site = 0;
};

// Calls from which all ways end in the same place, one of which ends there itself.
struct Knot {
  std::vector<size_t> calls;   // in CallGraph::calls, most waiters first
  std::set<int32_t> ends;      // ranks for which others wait and that wait for nobody
  std::set<int32_t> unknown;   // ranks that may be such
  std::vector<size_t> inside;  // calls to which all have come and that do not return
};

struct CallGraph {
  std::vector<OpenCall> calls;
  std::vector<Knot> knots;
};

struct NumberRange {
  int64_t first = 0;
  int64_t last = 0;
};

// `parted`: by group whose ranks do not make the same calls, the numbers of those that are open
// because of that; calls from which a way leads there are in no knot.
CallGraph open_calls(const CallBook& book, const std::map<size_t, NumberRange>& parted);

}  // namespace paramedic::cluster
