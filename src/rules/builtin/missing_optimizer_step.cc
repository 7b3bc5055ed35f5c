// Gradients are computed, and no optimizer ever uses them.

#include <fmt/format.h>

#include "rules/rule.h"
#include "rules/told.h"

namespace paramedic::rules {

namespace {

// The counts are the adapter's (unstepped.py); here they are written down for who reads the rule.
constexpr int64_t kPasses = 1024;
constexpr int64_t kPassesAtEnd = 32;

class MissingOptimizerStep : public Rule {
 public:
  using Rule::Rule;

  void on_event(const store::EventRow& row) override {
    const std::optional<Json> fields = told(row, "optimizer_never_steps");
    // A loss scaler leaves steps out whose gradients are not finite: amp_scale_collapse tells that.
    if (!fields || facts().amp()) return;
    const std::string optimizer = string_or(*fields, "optimizer", "the optimizer");
    const int64_t passes = integer_or(*fields, "passes", 0);
    Finding finding = told_finding(row, *fields);
    finding.severity = Severity::kError;
    finding.kind = "weight";
    finding.value = static_cast<double>(passes);
    finding.confidence = 0.95;
    finding.message = fmt::format(
        "{} never steps: after {} backward passes that reached its parameters these are as they "
        "were",
        optimizer, passes);
    report(std::move(finding));
  }
};

}  // namespace

RuleEntry missing_optimizer_step_rule() {
  return {
      {"missing_optimizer_step",
       Severity::kError,
       "An optimizer never steps",
       "Backward passes reach the parameters of an optimizer that has not stepped once, and "
       "the parameters do not change: in 32 passes of a job that has ended, or in 1024 of one "
       "that runs on while no other optimizer steps. Not judged: models in eval mode, whose "
       "gradients are wanted for something else.",
       "call optimizer.step() after backward(), and check that the condition it stands under "
       "is ever met; scheduler.step() is no step of the optimizer",
       {{"passes", static_cast<double>(kPasses), 1, 1e9, "backward passes while the job runs"},
        {"passes_at_end", static_cast<double>(kPassesAtEnd), 1, 1e9, "when the job has ended"}}},
      &make_rule<MissingOptimizerStep>};
}

}  // namespace paramedic::rules
