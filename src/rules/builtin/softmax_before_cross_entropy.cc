// Scores are squashed before a loss that squashes them itself.

#include <fmt/format.h>

#include "rules/rule.h"
#include "rules/told.h"

namespace paramedic::rules {

namespace {

class SoftmaxBeforeCrossEntropy : public Rule {
 public:
  using Rule::Rule;

  // The adapter saw it in the graph of the loss.
  void on_event(const store::EventRow& row) override {
    const std::optional<Json> fields = told(row, "squashed_before_loss");
    if (!fields) return;
    const std::string function = string_or(*fields, "function", "softmax");
    const bool log_missing = bool_or(*fields, "log_missing", false);
    Finding finding = told_finding(row, *fields);
    finding.severity = Severity::kWarning;
    finding.kind = "loss";
    finding.tensor = string_or(*fields, "loss", "loss");
    finding.confidence = 0.97;
    finding.message =
        log_missing ? fmt::format(
                          "the loss takes logarithms of probabilities, and is given the output of "
                          "a {} itself",
                          function)
                    : fmt::format(
                          "the loss is given the output of a {}, and squashes it once more: it "
                          "cannot fall to zero",
                          function);
    report(std::move(finding));
  }
};

}  // namespace

RuleEntry softmax_before_cross_entropy_rule() {
  return {{"softmax_before_cross_entropy",
           Severity::kWarning,
           "The output is squashed before a loss that does so itself",
           "In the graph of the loss the input of a cross entropy (of classes, or binary with "
           "logits) is the output of a softmax or a sigmoid, with nothing between but changes of "
           "shape; or that of nll_loss is no logarithm (UMLAUT: softmax and loss must fit).",
           "give the loss the scores of the last layer as they are; keep the softmax for when "
           "probabilities are wanted",
           {}},
          &make_rule<SoftmaxBeforeCrossEntropy>};
}

}  // namespace paramedic::rules
