#pragma once
// When each step of a rank ended, from the steps whose time was sampled (scalar `step_ms`); those
// between two of them are taken to be of equal length. Plain value.

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "store/run.h"

namespace paramedic::store {

class StepTimes {
 public:
  struct Step {
    int64_t step = 0;
    int64_t end_ns = 0;  // wall clock
    double step_ms = 0;
  };

  static Result<StepTimes> read(RunReader& reader);

  // In the order of steps; one that is told again, after a restart, begins anew.
  void add(int rank, const Step& step);

  // The step that was going on at `time_ns`; of any rank where `rank` is not known. -1 = none.
  [[nodiscard]] int64_t step_at(int rank, int64_t time_ns) const;
  // When `step` ended, of the first rank that knows; nothing outside of what was sampled.
  [[nodiscard]] std::optional<int64_t> end_of(int64_t step) const;

 private:
  std::map<int, std::vector<Step>> ranks_;
};

}  // namespace paramedic::store
