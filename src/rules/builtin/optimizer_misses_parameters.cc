// A layer was replaced after its optimizer was made.

#include <fmt/format.h>

#include "rules/rule.h"
#include "rules/told.h"

namespace paramedic::rules {

namespace {

constexpr int64_t kLooks = 2;  // the adapter's (orphans.py)

class OptimizerMissesParameters : public Rule {
 public:
  using Rule::Rule;

  void on_event(const store::EventRow& row) override {
    const std::optional<Json> fields = told(row, "optimizer_misses_parameters");
    if (!fields) return;
    Finding finding = told_finding(row, *fields, "parameters");
    finding.severity = Severity::kError;
    finding.kind = "weight";
    finding.confidence = 0.95;
    finding.message = fmt::format(
        "{} holds parameters that the model no longer has, and not {}: this is never trained",
        string_or(*fields, "optimizer", "the optimizer"),
        finding.tensor.value_or("those that replaced them"));
    report(std::move(finding));
  }
};

}  // namespace

RuleEntry optimizer_misses_parameters_rule() {
  return {{"optimizer_misses_parameters",
           Severity::kError,
           "An optimizer holds parameters that the model no longer has",
           "In two sampled steps in a row an optimizer holds parameters that are in no model and "
           "have no gradient, while the model has parameters with gradients that no optimizer "
           "holds (TrainCheck: accelerate-2665). Parameters left out on purpose are none.",
           "make the optimizer after the last change of the model, or add the new parameters with "
           "add_param_group()",
           {{"looks", static_cast<double>(kLooks), 1, 1000, "sampled steps in a row"}}},
          &make_rule<OptimizerMissesParameters>};
}

}  // namespace paramedic::rules
