// Classes so rare that the model never answers them.

#include <fmt/format.h>

#include "rules/answers.h"
#include "rules/rule.h"
#include "rules/told.h"

namespace paramedic::rules {

namespace {

constexpr double kRatio = 10;         // of the most frequent class to a rare one
constexpr int64_t kSamples = 200;     // labels in all (smdebug: 500)
constexpr int64_t kRareSamples = 10;  // of rare classes, in later looks
constexpr double kRecall = 0.05;      // of them
constexpr int64_t kStep = 100;        // from which on answers count

class ClassImbalance : public Rule {
 public:
  using Rule::Rule;

  void on_event(const store::EventRow& row) override {
    const std::optional<Answers> answers = told_answers(row);
    if (!answers) return;
    weighted_ = weighted_ || answers->weighted;
    where_ = answers->where;
    labels_.add(answers->labels);
    if (answers->at < kStep) return;
    late_labels_.add(answers->labels);
    late_right_.add(answers->right);
    last_step_ = row.origin.step;
    if (first_step_ < 0) first_step_ = last_step_;
  }

  void finish() override {
    if (weighted_ || labels_.sum() < kSamples || last_step_ < 0) return;
    const int64_t most = labels_.most();
    int64_t rare = 0;
    int64_t right = 0;
    std::vector<size_t> classes;
    for (size_t i = 0; i < labels_.size(); ++i) {
      if (labels_[i] == 0 || static_cast<double>(most) < kRatio * static_cast<double>(labels_[i])) {
        continue;
      }
      classes.push_back(i);
      rare += late_labels_[i];
      right += late_right_[i];
    }
    if (rare < kRareSamples || static_cast<double>(right) > kRecall * static_cast<double>(rare)) {
      return;
    }
    Finding finding;
    finding.severity = Severity::kWarning;
    finding.step = first_step_;
    finding.last_step = last_step_;
    finding.kind = "target";
    finding.value = static_cast<double>(most) / static_cast<double>(labels_[classes.front()]);
    finding.threshold = kRatio;
    finding.confidence = 0.8;
    finding.where = where_;
    finding.message = fmt::format(
        "class {} is {:.3g} times rarer than class {}, and the model answers it hardly ever: {} of "
        "{} such samples are right",
        classes.front(), *finding.value, labels_.most_frequent(), right, rare);
    report(std::move(finding));
  }

 private:
  bool weighted_ = false;
  std::optional<Where> where_;
  Counts labels_;
  Counts late_labels_;
  Counts late_right_;
  int64_t first_step_ = -1;
  int64_t last_step_ = -1;
};

}  // namespace

RuleEntry class_imbalance_rule() {
  return {
      {"class_imbalance",
       Severity::kWarning,
       "Rare classes are never answered",
       "Of 200 labels or more that were looked at one class is ten times as frequent as another "
       "(smdebug), and from step 100 on hardly any of ten or more samples of the rare classes "
       "is answered rightly. Not judged: losses that weigh classes, more than 50 classes, "
       "rare classes that the model does answer.",
       "weigh the classes in the loss, or draw rare ones more often (WeightedRandomSampler)",
       {{"ratio", kRatio, 1, 1e9, "of the most frequent class to a rare one"},
        {"samples", static_cast<double>(kSamples), 1, 1e9, "labels looked at"},
        {"recall", kRecall, 0, 1, "of the rare classes"}}},
      &make_rule<ClassImbalance>};
}

}  // namespace paramedic::rules
