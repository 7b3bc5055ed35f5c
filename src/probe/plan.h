#pragma once
// The capture plan: which tensors are captured at which steps, and what of them. Text in
// docs/formats/capture-plan.md; parsed once, outside any hot path. Plain values. The command line
// checks a plan with the same `parse_plan`.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "probe/name_pattern.h"
#include "record/format.h"

namespace paramedic::probe {

constexpr size_t kPlanBytesMax = 64U << 10;
constexpr size_t kCollectionsMax = 32;  // one bit each in the masks of the schedule
constexpr size_t kExplicitStepsMax = 256;

// What is recorded of a tensor; bits.
enum What : uint32_t {
  kWhatStats = 1U << 0,
  kWhatUnits = 1U << 1,      // dead and frozen units; together with stats
  kWhatHistogram = 1U << 2,  // log2 histogram
  kWhatRaw = 1U << 3,        // all values
  kWhatShape = 1U << 4,      // the sizes, as an event `shape`; no value is read
  kWhatProduct = 1U << 5,    // the product of all elements, as the scalar `prod/NAME`
};

// One line of a plan.
struct Collection {
  std::string name;
  uint32_t kinds = 0;     // bits 1 << record::Kind
  uint32_t modes = 0;     // bits 1 << record::Mode
  int64_t interval = 10;  // 0: only at `steps`
  int64_t start = 0;
  int64_t end = -1;            // the first step that is no longer captured; -1: none
  std::vector<int64_t> steps;  // in rising order; captured whatever the budget says
  uint32_t what = kWhatStats;
  NamePattern pattern;

  // Whether the plan asks for `step`, as a step of the interval or explicitly.
  [[nodiscard]] bool is_due(int64_t step) const;
  [[nodiscard]] bool is_explicit(int64_t step) const;
  // The first step >= `step` that is due, and the first of those named explicitly; INT64_MAX when
  // there is none.
  [[nodiscard]] int64_t next_due(int64_t step) const;
  [[nodiscard]] int64_t next_explicit(int64_t step) const;
};

struct Plan {
  std::vector<Collection> collections;

  // Bits of the collections that a tensor belongs to.
  [[nodiscard]] uint32_t collections_of(record::Kind kind, const std::string& name) const;
};

// The text of the plan that an empty text stands for.
std::string_view default_plan_text();

// kInvalidArgument names line and column and what would be right. Blank lines and lines that
// begin with '#' are skipped; a text with no collection is the default plan.
Result<Plan> parse_plan(std::string_view text);

}  // namespace paramedic::probe
