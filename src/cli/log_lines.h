#pragma once
// What the job printed, as one stream of lines in the order of time, with what is known about
// each: which rank wrote it, when, at which step. Memory does not grow with the logs.

#include <cstdint>
#include <functional>
#include <string>

#include "diagnose/prefix.h"
#include "store/step_times.h"

namespace paramedic::cli {

struct LoggedLine {
  std::string file;     // "rank-0.err"
  uint64_t number = 0;  // in the file, from 1
  int64_t time_ns = 0;  // wall clock; 0 = not known
  int rank = -1;        // -1 = not known: in a job of several ranks the line has no prefix
  int64_t step = -1;    // that this rank (or, where it is not known, any) was in; -1 = not known
  diagnose::Level level = diagnose::Level::kInfo;
  std::string text;  // without prefixes, control characters and broken UTF-8
};

// Passes the lines of `folder`/logs on, until `take` answers false. kNotFound without logs.
Status read_log_lines(const std::string& folder, int world_size, const store::StepTimes& steps,
                      const std::function<bool(const LoggedLine&)>& take);

}  // namespace paramedic::cli
