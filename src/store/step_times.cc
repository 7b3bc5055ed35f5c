#include "store/step_times.h"

#include <algorithm>
#include <cmath>

namespace paramedic::store {

Result<StepTimes> StepTimes::read(RunReader& reader) {
  StepTimes times;
  PARAMEDIC_TRY(reader.read_scalars([&](const ScalarRow& row) {
    if (row.name != nullptr && *row.name == "step_ms") {
      times.add(row.origin.rank, {row.origin.step, row.origin.time_ns, row.value});
    }
    return true;
  }));
  return times;
}

void StepTimes::add(int rank, const Step& step) {
  std::vector<Step>& steps = ranks_[rank];
  while (!steps.empty() && steps.back().step >= step.step) steps.pop_back();
  steps.push_back(step);
}

int64_t StepTimes::step_at(int rank, int64_t time_ns) const {
  auto known = ranks_.find(rank);
  if (known == ranks_.end()) known = ranks_.begin();
  if (known == ranks_.end() || time_ns == 0) return -1;
  const std::vector<Step>& steps = known->second;
  const auto next =
      std::lower_bound(steps.begin(), steps.end(), time_ns,
                       [](const Step& step, int64_t value) { return step.end_ns < value; });
  if (next == steps.end()) return steps.back().step + 1;
  if (next == steps.begin()) {
    const bool is_in_it = time_ns >= next->end_ns - static_cast<int64_t>(next->step_ms * 1e6);
    return is_in_it ? next->step : -1;
  }
  const Step& before = *(next - 1);
  const double share = static_cast<double>(time_ns - before.end_ns) /
                       static_cast<double>(next->end_ns - before.end_ns);
  return before.step +
         static_cast<int64_t>(std::ceil(share * static_cast<double>(next->step - before.step)));
}

std::optional<int64_t> StepTimes::end_of(int64_t step) const {
  for (const auto& [rank, steps] : ranks_) {
    const auto found =
        std::lower_bound(steps.begin(), steps.end(), step,
                         [](const Step& known, int64_t value) { return known.step < value; });
    if (found == steps.end()) continue;
    if (found->step == step) return found->end_ns;
    if (found == steps.begin()) continue;
    const Step& before = *(found - 1);
    const double share =
        static_cast<double>(step - before.step) / static_cast<double>(found->step - before.step);
    return before.end_ns +
           static_cast<int64_t>(share * static_cast<double>(found->end_ns - before.end_ns));
  }
  return std::nullopt;
}

}  // namespace paramedic::store
