#pragma once
// The judgement of a crash that has just happened, without a log: what the repair policies and
// `run --retries` act on. Thread-safe, no I/O, well below a millisecond.

#include <string>
#include <vector>

#include "diagnose/traceback.h"
#include "diagnose/verdict.h"

namespace paramedic::diagnose {

struct LiveCrash {
  // As Python prints a chain: the exception that was raised first stands first, each later one says
  // by its link how it follows. Frames outermost first; their `role` is set by `judge`.
  std::vector<Exception> chain;
  int rank = -1;
  int64_t step = -1;             // that the job is at, or -1
  int64_t checkpoint_step = -1;  // the last one that was saved, or -1
};

// Category, mechanism, domain, stage, retry and fix as `diagnose` would give them for the printed
// traceback; evidence has no line numbers. An empty chain gives `unknown`.
Verdict judge(LiveCrash crash);

}  // namespace paramedic::diagnose
