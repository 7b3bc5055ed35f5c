// A model is trained in the mode in which it is evaluated.

#include <fmt/format.h>

#include "rules/rule.h"
#include "rules/told.h"

namespace paramedic::rules {

namespace {

constexpr int64_t kLooks = 2;  // the adapter's (modes.py)

class EvalModeInTraining : public Rule {
 public:
  using Rule::Rule;

  void on_event(const store::EventRow& row) override {
    const std::optional<Json> fields = told(row, "eval_mode_in_training");
    if (!fields) return;
    Finding finding = told_finding(row, *fields, "modules");
    finding.severity = Severity::kWarning;
    finding.kind = "activation";
    finding.confidence = 0.9;
    finding.message = fmt::format(
        "{} is trained in eval mode since step {}: its dropout is off and its batch statistics "
        "stand still",
        string_or(*fields, "model", "the model"), *finding.step);
    report(std::move(finding));
  }
};

}  // namespace

RuleEntry eval_mode_in_training_rule() {
  return {{"eval_mode_in_training",
           Severity::kWarning,
           "A model is trained in eval mode",
           "A model with dropout or batch normalisation is in eval mode at two sampled steps of "
           "its optimizer in a row, after it was in training mode, or with weights that were not "
           "loaded. Not judged: parts kept in eval mode inside a model that trains, and models "
           "that go on from loaded weights and were never in training mode (TheDeepChecker checks "
           "the switch as well).",
           "call model.train() before each epoch, and after each evaluation",
           {{"looks", static_cast<double>(kLooks), 1, 1000, "sampled steps in a row"}}},
          &make_rule<EvalModeInTraining>};
}

}  // namespace paramedic::rules
