#pragma once
// Ranks that take turns at being slow: none of them is slower than another one, and yet all wait
// in most steps, each time for somebody else. Plain functions.

#include <optional>
#include <string>
#include <vector>

#include "cluster/pace.h"

namespace paramedic::cluster {

struct Turns {
  double cost_ms = 0;    // of the whole span: by beat, what all wait for the one that is slow
  double beats = 0;      // share of the beats in which one is
  double slow_ms = 0;    // such a beat of the slow rank, in the middle
  double others_ms = 0;  // and of the others
  size_t ranks = 0;      // that had their turn
  std::string kind;      // what they were at, as in PaceLine; "" where that is not seen
  rules::Where where;    // line 0: not seen
};

// Nothing where one rank is slow more than the others, where it is rare, where it is little, or
// where the kernel had no core for them.
std::optional<Turns> turns_in(const PaceSpan& span);

// The share of values that hold most of their sum: 1 where all are alike.
double habit_of(std::vector<double> values);

}  // namespace paramedic::cluster
