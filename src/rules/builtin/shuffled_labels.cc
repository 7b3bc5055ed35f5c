// Targets that do not belong to the inputs they come with.

#include <fmt/format.h>

#include "rules/rule.h"
#include "rules/told.h"

namespace paramedic::rules {

namespace {

constexpr double kShare = 0.75;  // the adapter's (labels.py)
// Of the loss of the best constant answer: what is less has learnt something.
constexpr double kLevel = 0.9;

class ShuffledLabels : public Rule {
 public:
  using Rule::Rule;

  void on_event(const store::EventRow& row) override {
    std::optional<Json> fields = told(row, "labels_differ");
    if (!fields) return;
    told_ = std::move(fields);
    step_ = row.origin.step;
  }

  void on_step(int64_t) override { judge(); }
  void finish() override { judge(); }

 private:
  // Labels that are given anew in each episode differ as well, and can be learnt.
  void judge() {
    if (!told_ || done_) return;
    const LossFact* loss = facts().only_loss();
    if (loss == nullptr) return;
    const LossVerdict& verdict = loss->track.verdict();
    if (verdict.steps < LossTrack::kStepsMin) return;
    const double level = number_or(*told_, "level", 0);
    if (level > 0 ? verdict.recent < kLevel * level : facts().learning() != Learning::kStalled) {
      return;
    }
    done_ = true;
    const double seen = number_or(*told_, "seen", 1);
    const double differ = number_or(*told_, "differ", 0);
    Finding finding;
    finding.severity = Severity::kError;
    finding.step = step_;
    finding.kind = "target";
    finding.value = differ / seen;
    finding.confidence = 0.95;
    finding.where = told_where(*told_);
    finding.message = fmt::format(
        "of {:.0f} samples that came again {:.0f} had the target of another one: targets are put "
        "in another order than inputs",
        seen, differ);
    if (level > 0) {
      finding.evidence.push_back(fmt::format(
          "the loss is {:.4g}; the best constant answer has {:.4g}", verdict.recent, level));
    }
    report(std::move(finding));
  }

  std::optional<Json> told_;
  int64_t step_ = -1;
  bool done_ = false;
};

}  // namespace

RuleEntry shuffled_labels_rule() {
  return {{"shuffled_labels",
           Severity::kError,
           "Targets do not belong to their inputs",
           "Samples that come again in a later step have the target of another sample three "
           "quarters as often as chance alone would give, and the loss is no lower than nine "
           "tenths of the best constant answer's. Not judged: targets that are places in the "
           "batch, noise that no other sample has as its target, inputs that never come again.",
           "draw one permutation and use it for inputs and targets; shuffle pairs, not each of "
           "them",
           {{"share", kShare, 0, 1, "of the differences that chance would give"},
            {"level", kLevel, 0, 10, "of the best constant answer's loss"}}},
          &make_rule<ShuffledLabels>};
}

}  // namespace paramedic::rules
