#pragma once
// Decides at each step which collections of the plan are captured now: those that fall due and
// whose cost the budget covers. What it does not cover is put off and stays due. O(1) at a step at
// which nothing is due. Not thread-safe.

#include <array>
#include <cstdint>

#include "probe/budget.h"
#include "probe/plan.h"

namespace paramedic::probe {

class Schedule {
 public:
  // `plan` and `budget` outlive the schedule.
  Schedule(const Plan& plan, Budget& budget) : plan_(plan), budget_(budget) {}

  // The kinds (bits 1 << kind) to capture at `step`. The same answer again for the same step and
  // mode, so that several hooks may ask.
  uint32_t due(record::Mode mode, int64_t step);

  // The first step after `step` at which a collection falls due that is not put off already;
  // INT64_MAX when there is none.
  [[nodiscard]] int64_t next_due(record::Mode mode, int64_t step) const;

  // The collections (bits) by which a tensor of `kind` is captured now: those that `due` granted
  // for this step and mode.
  [[nodiscard]] uint32_t granted(record::Mode mode, int64_t step, record::Kind kind) const;

 private:
  using KindMasks = std::array<uint32_t, record::kKindCount>;  // collections of each kind
  struct ModeState {
    int64_t step = -1;      // the last that was asked for
    int64_t next_due = -1;  // nothing falls due before it
    uint32_t due_kinds = 0;
    KindMasks granted = {};
    KindMasks put_off = {};
    // Step at which each kind was first put off: who waits longest is served first.
    std::array<int64_t, record::kKindCount> waits_since = {};
    uint32_t put_off_kinds = 0;
  };
  void fall_due(ModeState& state, record::Mode mode, int64_t step, uint32_t* explicit_kinds);
  void grant(ModeState& state, int64_t step, uint32_t explicit_kinds);

  static uint32_t longest_waiting(const ModeState& state, uint32_t kinds);

  const Plan& plan_;
  Budget& budget_;
  std::array<ModeState, record::kModeCount> modes_;
};

}  // namespace paramedic::probe
