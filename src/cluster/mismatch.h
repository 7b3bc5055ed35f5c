#pragma once
// What is said about ranks that do not make the same collective, whoever tells their calls. Pure.

#include <functional>
#include <string>

#include "cluster/compare.h"
#include "rules/finding.h"
#include "store/rows.h"

namespace paramedic::cluster {

// A call of a rank, in words.
struct CallWords {
  std::string text;       // "all_reduce of float32 [64]"
  store::CallSite where;  // line 0: not known
  std::string state;      // "still inside"
};
// Of a call that the rank knows: (rank, number).
using WordsOf = std::function<CallWords(int32_t, int64_t)>;

// The rank that `finding.where` is of, and whose step may be added: the first odd one.
struct Mismatch {
  rules::Finding finding;
  int32_t shown = 0;
};
// `sequence`: what is numbered, "group default_pg".
Mismatch describe_mismatch(const Divergence& divergence, const std::string& sequence,
                           const WordsOf& words);

}  // namespace paramedic::cluster
