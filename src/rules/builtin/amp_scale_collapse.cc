// A loss scaler that halves its scale without end.

#include <fmt/format.h>

#include "rules/rule.h"

namespace paramedic::rules {

namespace {

// Scales of healthy jobs are powers of two from 2^8 to 2^24: below 1 the gradients would overflow
// without any scaler.
constexpr double kScale = 1.0;
constexpr int kSamples = 10;

class AmpScaleCollapse : public Rule {
 public:
  using Rule::Rule;

  void on_scalar(const store::ScalarRow& row) override {
    if (*row.name != "amp_scale") return;
    if (rows_++ == 0) first_ = row.value;
    // A scale that was set so low by hand is none that fell.
    low_.see(row.value < kScale && row.value < first_, row.origin.step);
    if (low_.hits() < kSamples) return;
    Finding finding;
    finding.severity = Severity::kError;
    finding.step = low_.first_step();
    finding.kind = "scalar";
    finding.tensor = "amp_scale";
    finding.value = row.value;
    finding.threshold = kScale;
    finding.confidence = 0.95;
    finding.message = fmt::format(
        "the scale of the loss has fallen from {:.4g} to {:.4g}: each step finds gradients that "
        "are not finite and is left out",
        first_, row.value);
    report(std::move(finding));
  }

 private:
  int64_t rows_ = 0;
  double first_ = 0;
  Streak low_;
};

}  // namespace

RuleEntry amp_scale_collapse_rule() {
  return {{"amp_scale_collapse",
           Severity::kError,
           "The loss scale collapses",
           "The scale of a GradScaler is below 1 in ten samples in a row, after it began higher: "
           "the gradients are not finite whatever the scale is, and no step is taken.",
           "look for the operation whose gradient is not finite, and run the loss and what "
           "overflows in float32",
           {{"scale", kScale, 0, 65536, "below which it has collapsed"},
            {"samples", kSamples, 1, 1000, "in a row"}}},
          &make_rule<AmpScaleCollapse>};
}

}  // namespace paramedic::rules
