// A loss that is no better than at the start.

#include <fmt/format.h>

#include <algorithm>

#include "rules/rule.h"
#include "rules/told.h"

namespace paramedic::rules {

namespace {

// Plateaus of a hundred steps before the loss falls are common in healthy runs.
constexpr int64_t kSteps = 200;
constexpr int64_t kStepsAtEnd = 100;  // when the run is over, this much says enough
constexpr int64_t kStepsHeld = 30;    // the verdict must stand for so long

class LossNotDecreasing : public Rule {
 public:
  using Rule::Rule;

  // Seen in the graph of the loss: no step is needed to know it.
  void on_event(const store::EventRow& row) override {
    const std::optional<Json> fields = told(row, "loss_of_all_pairs");
    if (!fields || all_pairs_) return;
    all_pairs_ = true;
    const int64_t rows = integer_or(*fields, "rows", 0);
    Finding finding = told_finding(row, *fields);
    finding.severity = Severity::kWarning;
    finding.kind = "loss";
    finding.tensor = string_or(*fields, "loss", "loss");
    finding.confidence = 0.95;
    finding.message = fmt::format(
        "predictions of shape ({0}, 1) and targets of shape ({0},), or the other way round, spread "
        "to ({0}, {0}): each prediction is compared with all targets, and the loss cannot fall "
        "below their variance",
        rows);
    finding.evidence.emplace_back("give both the same shape: squeeze(1), or targets[:, None]");
    report(std::move(finding));
  }

  void on_step(int64_t step) override {
    if (all_pairs_) return;
    const Learning learning = facts().learning();
    const bool stuck = learning == Learning::kStalled || learning == Learning::kWorse;
    if (stuck) {
      held_.hit(step);
    } else {
      held_.miss();
    }
    const LossFact* loss = facts().only_loss();
    if (loss == nullptr) return;
    if (learning == Learning::kLearns) recover(*loss);
    const bool long_enough = held_.hits() >= kStepsHeld;
    if (stuck && long_enough && loss->track.verdict().steps >= kSteps) tell(*loss, learning);
  }

  void finish() override {
    if (all_pairs_) return;
    const Learning learning = facts().learning();
    if (learning != Learning::kStalled && learning != Learning::kWorse) return;
    const LossFact& loss = *facts().only_loss();
    if (held_.hits() < kStepsHeld || loss.track.verdict().steps < kStepsAtEnd) return;
    tell(loss, learning);
  }

 private:
  void tell(const LossFact& loss, Learning learning) {
    const LossVerdict& verdict = loss.track.verdict();
    Finding finding;
    finding.severity = Severity::kWarning;
    finding.step = loss.track.first_step();
    finding.last_step = loss.track.last_step();
    finding.kind = "loss";
    finding.value = verdict.recent;
    finding.threshold = verdict.told_start() * (1 - LossTrack::kChangeMin);
    finding.where = loss.where;
    finding.confidence = learning == Learning::kWorse ? 0.9 : 0.85;
    finding.message = fmt::format("the loss {} in {} steps: {:.4g} at first, {:.4g} now",
                                  learning == Learning::kWorse ? "has grown" : "does not fall",
                                  verdict.steps, verdict.told_start(), verdict.recent);
    if (const std::optional<double> chance = facts().chance_level(loss)) {
      finding.evidence.push_back(fmt::format("guessing gives {:.4g}", *chance));
    }
    for (const auto& [name, rate] : facts().learning_rates()) {
      finding.evidence.push_back(fmt::format("{} is {:.3g}", name, rate.newest));
      if (finding.evidence.size() >= kEvidencePerFindingMax) break;
    }
    told_ = finding;
    report(std::move(finding));
  }

  void recover(const LossFact& loss) {
    if (!told_ || told_->severity == Severity::kInfo) return;
    told_->severity = Severity::kInfo;
    told_->last_step = loss.track.last_step();
    told_->message = fmt::format(
        "the loss stood still at first, but falls now: {:.4g} at first, "
        "{:.4g} now",
        loss.track.verdict().told_start(), loss.track.verdict().recent);
    report(*told_);
  }

  Streak held_;
  std::optional<Finding> told_;
  bool all_pairs_ = false;
};

}  // namespace

RuleEntry loss_not_decreasing_rule() {
  return {{"loss_not_decreasing",
           Severity::kWarning,
           "The loss does not fall",
           "Over 200 steps the median of the last quarter is not 3 % and four standard errors "
           "below the first steps, and the level is that of guessing (ln of the number of "
           "classes) or of targets not learnt at all; or it has grown threefold; or the graph of "
           "the loss compares each of N predictions with all N targets. Not judged: "
           "several losses or optimizers in turn, losses of both signs, very noisy ones, "
           "warm-up.",
           "check that the optimizer has the model's parameters and steps, try a learning rate "
           "ten times larger and smaller, and overfit one batch",
           {{"steps", static_cast<double>(kSteps), LossTrack::kStepsMin, 1e9,
             "before it is said while the job runs"},
            {"steps_at_end", static_cast<double>(kStepsAtEnd), LossTrack::kStepsMin, 1e9,
             "that are enough when the job has ended"},
            {"change", LossTrack::kChangeMin, 0, 1, "of the level, below which nothing changed"}}},
          &make_rule<LossNotDecreasing>};
}

}  // namespace paramedic::rules
