// A model is evaluated in the mode in which it is trained.

#include <fmt/format.h>

#include "rules/rule.h"
#include "rules/told.h"

namespace paramedic::rules {

namespace {

constexpr int64_t kEvaluations = 2;  // the adapter's (evaluations.py)

class TrainModeInEvaluation : public Rule {
 public:
  using Rule::Rule;

  void on_event(const store::EventRow& row) override {
    const std::optional<Json> fields = told(row, "train_mode_in_evaluation");
    if (!fields) return;
    Finding finding = told_finding(row, *fields, "modules");
    finding.severity = Severity::kWarning;
    finding.mode = "eval";
    finding.kind = "activation";
    finding.stage = "validate";
    finding.confidence = 0.9;
    finding.message = fmt::format(
        "{} is evaluated in training mode since step {}: its dropout is on, and batch "
        "normalisation takes the statistics of what it is tested on",
        string_or(*fields, "model", "the model"), *finding.step);
    report(std::move(finding));
  }
};

}  // namespace

RuleEntry train_mode_in_evaluation_rule() {
  return {{"train_mode_in_evaluation",
           Severity::kWarning,
           "A model is evaluated in training mode",
           "A model with dropout or batch normalisation is called with gradients off between its "
           "updates, and in training mode: two times that lie steps apart, or after the last "
           "update. Not judged: models that were ever evaluated in eval mode, that were switched "
           "to training mode for it, or are asked for the same input several times (samples by "
           "dropout); models trained against others; what is done in every step, or with single "
           "samples (TheDeepChecker checks the switch as well).",
           "call model.eval() before each evaluation, and model.train() after it",
           {{"evaluations", static_cast<double>(kEvaluations), 1, 1000, "apart from each other"}}},
          &make_rule<TrainModeInEvaluation>};
}

}  // namespace paramedic::rules
