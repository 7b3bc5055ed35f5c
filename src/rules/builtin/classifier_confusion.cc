// A classifier that gives the same answer whatever it is asked.

#include <fmt/format.h>

#include "rules/answers.h"
#include "rules/rule.h"
#include "rules/told.h"

namespace paramedic::rules {

namespace {

constexpr double kAnswers = 0.98;  // that are the same class
constexpr double kLabels = 0.6;    // at most, of the most frequent class
constexpr double kLevel = 0.9;     // of the loss, over the entropy of the labels
constexpr int64_t kSamples = 48;   // of a group of looks
constexpr int64_t kStep = 100;     // of the last group

class ClassifierConfusion : public Rule {
 public:
  using Rule::Rule;

  void on_event(const store::EventRow& row) override {
    std::optional<Answers> answers = told_answers(row);
    if (!answers) return;
    streak_.see(answers->samples() >= kSamples && !answers->weighted &&
                    answers->labels.share() <= kLabels && answers->answers.share() >= kAnswers,
                row.origin.step);
    newest_ = std::move(answers);
    judge();
  }

  void on_step(int64_t) override { judge(); }
  void finish() override { judge(); }

 private:
  void judge() {
    if (done_ || streak_.hits() < 2 || newest_->at < kStep) return;
    const LossFact* loss = facts().only_loss();
    if (loss == nullptr || loss->weighted) return;
    const LossVerdict& verdict = loss->track.verdict();
    const double level = newest_->labels.entropy();
    if (verdict.steps < LossTrack::kStepsMin || verdict.recent < kLevel * level) return;
    done_ = true;
    Finding finding;
    finding.severity = Severity::kWarning;
    finding.step = streak_.first_step();
    finding.last_step = facts().newest().step;
    finding.kind = "prediction";
    finding.value = newest_->answers.share();
    finding.threshold = kAnswers;
    finding.confidence = 0.9;
    finding.where = newest_->where;
    finding.message = fmt::format(
        "the classifier answers class {} for {:.3g} % of its samples, of which {:.3g} % are of the "
        "most frequent class",
        newest_->answers.most_frequent(), 100 * newest_->answers.share(),
        100 * newest_->labels.share());
    finding.evidence.push_back(
        fmt::format("the loss is {:.4g}; the shares of the classes alone "
                    "give {:.4g}",
                    verdict.recent, level));
    report(std::move(finding));
  }

  Streak streak_;
  std::optional<Answers> newest_;
  bool done_ = false;
};

}  // namespace

RuleEntry classifier_confusion_rule() {
  return {{"classifier_confusion",
           Severity::kWarning,
           "The classifier always gives the same answer",
           "In two groups of looks in a row, the last at step 100 or later, 98 % of the answers "
           "are one class though no class has more than 60 % of the labels, and the loss is no "
           "lower than nine tenths of what the shares of the classes alone give (smdebug: "
           "Confusion). Not judged: weighted losses, more than 50 classes.",
           "look whether the inputs reach the last layer at all: dead or saturated units, a rate "
           "that is too high, a constant input",
           {{"answers", kAnswers, 0, 1, "that are the same class"},
            {"labels", kLabels, 0, 1, "at most, of the most frequent class"},
            {"step", static_cast<double>(kStep), 0, 1e9, "of the last look, at least"}}},
          &make_rule<ClassifierConfusion>};
}

}  // namespace paramedic::rules
