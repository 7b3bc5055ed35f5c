// Every step is trained on the same batch, though there are others.

#include <fmt/format.h>

#include "rules/rule.h"
#include "rules/told.h"

namespace paramedic::rules {

namespace {

constexpr int64_t kLooks = 7;  // the adapter's (repeats.py)

class RepeatedBatches : public Rule {
 public:
  using Rule::Rule;

  void on_event(const store::EventRow& row) override {
    const std::optional<Json> fields = told(row, "batch_repeated");
    if (!fields) return;
    Finding finding = told_finding(row, *fields);
    finding.severity = Severity::kWarning;
    finding.kind = "input";
    finding.confidence = 0.95;
    finding.value = number_or(*fields, "steps", static_cast<double>(kLooks));
    finding.threshold = static_cast<double>(kLooks);
    finding.message = fmt::format(
        "the model is given the same {} samples in every step that was looked at, though {}",
        integer_or(*fields, "rows", 0), string_or(*fields, "why", "there are others"));
    report(std::move(finding));
  }
};

}  // namespace

RuleEntry repeated_batches_rule() {
  return {{"repeated_batches",
           Severity::kWarning,
           "The same batch in every step",
           "The model's inputs are the same numbers in seven looks of two groups of steps, and the "
           "loop around the step means to go from batch to batch: it goes over a loader whose "
           "batches are not used, has as many turns as there are batches in the data, begins a "
           "loader of several batches anew in each step, or its random numbers. Not judged: all "
           "data in each step, and a batch that is made once to see whether it can be learnt.",
           "take the batch by the loop's own variable; begin a loader, and random numbers, once "
           "before the loop",
           {{"looks", static_cast<double>(kLooks), 2, 1000, "with the same inputs"}}},
          &make_rule<RepeatedBatches>};
}

}  // namespace paramedic::rules
