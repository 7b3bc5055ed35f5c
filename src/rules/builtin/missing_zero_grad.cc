// Gradients of one step are still there in the next.

#include <fmt/format.h>

#include <algorithm>

#include "rules/rule.h"
#include "rules/told.h"

namespace paramedic::rules {

namespace {

constexpr int64_t kSteps = 3;

class MissingZeroGrad : public Rule {
 public:
  using Rule::Rule;

  // The adapter sends one when an optimizer has stepped and backward() adds to the gradients that
  // this step already used. `steps` lists those in which it was seen when one event tells of all.
  void on_event(const store::EventRow& row) override {
    const std::optional<Json> fields = told(row, "gradient_not_zeroed");
    if (!fields) return;
    const Json& json = *fields;
    if (row.origin.step != last_step_) ++steps_seen_;
    last_step_ = row.origin.step;
    int64_t first_step = row.origin.step;
    if (const auto list = json.find("steps");
        list != json.end() && list->is_array() && !list->empty()) {
      steps_seen_ = std::max(steps_seen_, static_cast<int64_t>(list->size()));
      if (list->front().is_number_integer()) first_step = list->front().get<int64_t>();
    }
    if (first_step_ < 0 || first_step < first_step_) first_step_ = first_step;
    const int64_t steps = steps_seen_;
    if (steps < kSteps) return;
    const std::string optimizer = string_or(json, "optimizer", "the optimizer");
    Finding finding;
    finding.severity = Severity::kError;
    finding.step = first_step_;
    finding.last_step = row.origin.step;
    finding.kind = "gradient";
    finding.confidence = 0.95;
    finding.value = static_cast<double>(steps);
    finding.threshold = static_cast<double>(kSteps);
    const std::string parameter = string_or(json, "parameter", "");
    if (!parameter.empty()) {
      finding.tensor = parameter;
      finding.tensors = {parameter};
    }
    finding.where = told_where(json);
    finding.message = fmt::format(
        "{} steps, but its gradients are never set to zero: those of all earlier steps add up",
        optimizer);
    finding.evidence.push_back(fmt::format("seen in {} steps since step {}", steps, first_step_));
    report(std::move(finding));
  }

 private:
  int64_t first_step_ = -1;
  int64_t last_step_ = -1;
  int64_t steps_seen_ = 0;
};

}  // namespace

RuleEntry missing_zero_grad_rule() {
  return {{"missing_zero_grad",
           Severity::kError,
           "Gradients are never set to zero",
           "After an optimizer's step the next backward() adds to the gradients that the step has "
           "used already, in three steps. Accumulation over several backward() calls before a "
           "step is none.",
           "call optimizer.zero_grad() once between step() and the next backward()",
           {{"steps", static_cast<double>(kSteps), 1, 1000, "steps in which it was seen"}}},
          &make_rule<MissingZeroGrad>};
}

}  // namespace paramedic::rules
