// Inputs so large that the model begins far worse than guessing.

#include <fmt/format.h>

#include <cmath>

#include "rules/rule.h"
#include "rules/told.h"

namespace paramedic::rules {

namespace {

// UMLAUT wants inputs within -1 and 1; raw counts up to 16 still train well.
constexpr double kScale = 20;
// The first loss, over that of guessing. A model that normalises its inputs begins at guessing.
constexpr double kStart = 3;
constexpr double kStartSquares = 10;  // over the mean square of the targets

class InputScale : public Rule {
 public:
  using Rule::Rule;

  void on_scalar(const store::ScalarRow& row) override {
    if (!start_ && row.name->starts_with("loss/")) start_ = row.value;
  }

  void on_event(const store::EventRow& row) override {
    const std::optional<Json> fields = told(row, "input_scale");
    if (!fields || told_) return;
    told_ = true;
    const LossFact* loss = facts().only_loss();
    if (loss == nullptr || !start_ || !std::isfinite(*start_) || facts().trained_before()) return;
    const double rms = number_or(*fields, "rms", 0);
    if (rms < kScale || !bool_or(*fields, "mean", false)) return;
    const double squares = number_or(*fields, "level", 0);
    const std::optional<double> chance = facts().chance_level(*loss);
    const double limit = squares > 0 ? kStartSquares * squares : kStart * chance.value_or(0);
    if (limit <= 0 || *start_ < limit) return;
    Finding finding = told_finding(row, *fields);
    finding.severity = Severity::kWarning;
    finding.kind = "input";
    finding.value = rms;
    finding.threshold = kScale;
    finding.confidence = 0.85;
    finding.message = fmt::format(
        "the inputs are large (root mean square {:.3g}), and with them the model begins at a loss "
        "of {:.3g}, where an answer that knows nothing has {:.3g}",
        rms, *start_, squares > 0 ? squares : *chance);
    if (const auto ends = fields->find("ends");
        ends != fields->end() && ends->is_array() && ends->size() == 2 && (*ends)[0].is_number() &&
        (*ends)[1].is_number() && (*ends)[1].get<double>() > 0) {
      finding.evidence.push_back(
          fmt::format("its features have root mean squares from {:.3g} to "
                      "{:.3g}",
                      (*ends)[0].get<double>(), (*ends)[1].get<double>()));
    }
    report(std::move(finding));
  }

 private:
  bool told_ = false;
  std::optional<double> start_;
};

}  // namespace

RuleEntry input_scale_rule() {
  return {{"input_scale",
           Severity::kWarning,
           "The inputs are not scaled",
           "In the first look at the inputs their root mean square is above 20, and the first loss "
           "is three times that of guessing (of mean squared errors ten times the mean square of "
           "the targets): the inputs alone make the model's first answers wild. Models that "
           "normalise their inputs begin at guessing. Not judged: sums over the batch, losses of "
           "other kinds, loaded weights.",
           "scale the inputs before training: divide pixels by 255, standardise each feature",
           {{"scale", kScale, 0, 1e9, "of the inputs"},
            {"start", kStart, 1, 1e6, "of the first loss, over that of guessing"},
            {"start_squares", kStartSquares, 1, 1e6, "the same of squared errors"}}},
          &make_rule<InputScale>};
}

}  // namespace paramedic::rules
