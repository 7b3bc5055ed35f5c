// Targets of a binary cross entropy that are no probabilities.

#include <fmt/format.h>

#include "rules/rule.h"
#include "rules/told.h"

namespace paramedic::rules {

namespace {

constexpr double kOutside = 0.5;  // the adapter's (loss_graph.py)

class LabelsOutOfRange : public Rule {
 public:
  using Rule::Rule;

  void on_event(const store::EventRow& row) override {
    const std::optional<Json> fields = told(row, "labels_out_of_range");
    if (!fields) return;
    const double low = number_or(*fields, "low", 0);
    const double high = number_or(*fields, "high", 0);
    Finding finding = told_finding(row, *fields);
    finding.severity = Severity::kError;
    finding.kind = "loss";
    finding.tensor = string_or(*fields, "loss", "loss");
    finding.value = high > 1 ? high : low;
    finding.threshold = high > 1 ? 1 : 0;
    finding.confidence = 0.95;
    finding.message = fmt::format(
        "the targets of a binary cross entropy lie from {:.4g} to {:.4g}: outside of 0 to 1 the "
        "loss has no lower bound",
        low, high);
    report(std::move(finding));
  }
};

}  // namespace

RuleEntry labels_out_of_range_rule() {
  return {{"labels_out_of_range",
           Severity::kError,
           "Targets are outside of what the loss takes",
           "A binary cross entropy is given targets below -0.5 or above 1.5, such as -1 and 1, or "
           "1 and 2. Seen in the first batch of each line that calls backward(). Targets just "
           "outside of 0 to 1 are a known trick of adversarial training.",
           "map the labels to 0 and 1, or take a loss that is made for them (soft margin for -1 "
           "and 1, cross entropy for classes)",
           {{"outside", kOutside, 0, 100, "beyond 0 to 1 that is let pass"}}},
          &make_rule<LabelsOutOfRange>};
}

}  // namespace paramedic::rules
