#include "probe/schedule.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace paramedic::probe {

uint32_t Schedule::due(record::Mode mode, int64_t step) {
  ModeState& state = modes_[static_cast<size_t>(mode)];
  if (step == state.step) return state.due_kinds;
  // Steps that go back are another fit in the same process: what falls due is looked up anew.
  const bool went_back = step < state.step;
  state.step = step;
  if (step < state.next_due && state.put_off_kinds == 0 && !went_back) {
    state.due_kinds = 0;
    return 0;
  }
  uint32_t explicit_kinds = 0;
  fall_due(state, mode, step, &explicit_kinds);
  grant(state, step, explicit_kinds);
  return state.due_kinds;
}

// Adds the collections that fall due at `step` to those that were put off.
void Schedule::fall_due(ModeState& state, record::Mode mode, int64_t step,
                        uint32_t* explicit_kinds) {
  state.next_due = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; i < plan_.collections.size(); i++) {
    const Collection& collection = plan_.collections[i];
    if ((collection.modes >> static_cast<uint32_t>(mode) & 1) == 0) continue;
    const int64_t next = collection.next_due(step);
    if (next != step) {
      state.next_due = std::min(state.next_due, next);
      continue;
    }
    state.next_due = std::min(state.next_due, step + 1);
    if (collection.is_explicit(step)) *explicit_kinds |= collection.kinds;
    for (uint32_t kind = 0; kind < record::kKindCount; kind++) {
      if ((collection.kinds >> kind & 1) == 0) continue;
      if ((state.put_off_kinds >> kind & 1) == 0) state.waits_since[kind] = step;
      state.put_off[kind] |= 1U << i;
      state.put_off_kinds |= 1U << kind;
    }
  }
}

// Serves kinds in the order in which they began to wait; one that is not covered holds up those
// behind it, so that cheap kinds cannot starve a costly one. Explicit ones are always served.
void Schedule::grant(ModeState& state, int64_t step, uint32_t explicit_kinds) {
  state.due_kinds = 0;
  state.granted = {};
  bool covered = true;
  for (uint32_t left = state.put_off_kinds; left != 0;) {
    const uint32_t kind = longest_waiting(state, left);
    left &= ~(1U << kind);
    const bool forced = (explicit_kinds >> kind & 1) != 0;
    if (!forced && !covered) continue;
    if (!budget_.take(static_cast<record::Kind>(kind), forced)) {
      covered = false;
      continue;
    }
    state.granted[kind] = std::exchange(state.put_off[kind], 0);
    state.put_off_kinds &= ~(1U << kind);
    state.due_kinds |= 1U << kind;
  }
  // A wait that began at a later step is one of a fit that is over.
  for (int64_t& since : state.waits_since) since = std::min(since, step);
}

// The kind in `kinds` (bits, not 0) that began to wait first; of several the one of lowest number.
uint32_t Schedule::longest_waiting(const ModeState& state, uint32_t kinds) {
  auto first = static_cast<uint32_t>(std::countr_zero(kinds));
  for (uint32_t kind = first; kind < record::kKindCount; kind++) {
    if ((kinds >> kind & 1) != 0 && state.waits_since[kind] < state.waits_since[first]) {
      first = kind;
    }
  }
  return first;
}

int64_t Schedule::next_due(record::Mode mode, int64_t step) const {
  constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  if (step == kNever) return kNever;
  const ModeState& state = modes_[static_cast<size_t>(mode)];
  int64_t next = kNever;
  for (size_t i = 0; i < plan_.collections.size(); i++) {
    const Collection& collection = plan_.collections[i];
    if ((collection.modes >> static_cast<uint32_t>(mode) & 1) == 0) continue;
    uint32_t waiting = 0;
    for (uint32_t kind = 0; kind < record::kKindCount; kind++) {
      if ((state.put_off[kind] >> i & 1) != 0) waiting |= 1U << kind;
    }
    // One that waits for the budget is not asked for twice, but explicit steps do not wait.
    const bool waits = (collection.kinds & ~waiting) == 0;
    next =
        std::min(next, waits ? collection.next_explicit(step + 1) : collection.next_due(step + 1));
  }
  return next;
}

uint32_t Schedule::granted(record::Mode mode, int64_t step, record::Kind kind) const {
  const ModeState& state = modes_[static_cast<size_t>(mode)];
  return state.step == step ? state.granted[static_cast<size_t>(kind)] : 0;
}

}  // namespace paramedic::probe
