#pragma once
// What the job printed, as one stream of lines in the order of time, with what is known about
// each: which rank wrote it, when, at which step. Memory does not grow with the logs.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "diagnose/prefix.h"
#include "store/run.h"

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

// When each step of a rank ended. Steps are told together and a while later; what they took says
// when each was.
class StepTimes {
 public:
  static Result<StepTimes> read(store::RunReader& reader);

  void add(int rank, int64_t step, int64_t told_ns, double step_ms);
  // The step that was going on at `time_ns`; of any rank for rank -1. -1 = not known.
  [[nodiscard]] int64_t step_at(int rank, int64_t time_ns) const;
  // When `step` ended, of the first rank that knows; nothing when it was not captured.
  [[nodiscard]] std::optional<int64_t> end_of(int64_t step) const;

 private:
  struct Step {
    int64_t step = 0;
    int64_t end_ns = 0;
    double step_ms = 0;
  };
  std::map<int, std::vector<Step>> ranks_;
};

// Passes the lines of `folder`/logs on, until `take` answers false. kNotFound without logs.
Status read_log_lines(const std::string& folder, int world_size, const StepTimes& steps,
                      const std::function<bool(const LoggedLine&)>& take);

}  // namespace paramedic::cli
