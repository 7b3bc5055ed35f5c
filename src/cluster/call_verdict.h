#pragma once
// What a book of calls says is wrong: ranks that have not come, calls that do not return, calls
// that do not fit. It knows no stacks of what a rank does outside of its calls, and no process: it
// says less than the watches of a running job (hang.h), by the same ids. Pure functions.

#include <optional>
#include <string>
#include <vector>

#include "cluster/call_book.h"
#include "rules/finding.h"

namespace paramedic::cluster {

// How one group stands.
struct GroupStanding {
  std::string name;
  std::string description;
  std::vector<int32_t> members;       // as told; else who has called something
  std::vector<int32_t> without_dump;  // members that told nothing
  std::vector<int32_t> not_known;     // told, but of this group all is overwritten
  int64_t furthest = -1;              // number of the last call that was entered; -1: none was
  std::vector<std::pair<int32_t, int64_t>> behind;  // rank, number of its last call (-1: none)
  std::vector<int32_t> inside;                      // have entered `furthest` and not left it
  std::optional<int64_t> parted;  // number of the first call that is not the same on all
};

struct CallVerdict {
  std::vector<GroupStanding> groups;     // those that matter first: parted, behind, inside
  std::vector<rules::Finding> findings;  // errors first
};

// `source`: what it rests on, "the flight recorders of 4 ranks".
CallVerdict judge_calls(const CallBook& book, const std::string& source);

}  // namespace paramedic::cluster
