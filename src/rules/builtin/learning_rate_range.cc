// A learning rate that cannot work: by its value or by its effect on the weights.

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>

#include "rules/rule.h"

namespace paramedic::rules {

namespace {

// Adam's rate is about the change of each weight in a step; weights are of the order of 0.1.
constexpr double kAdaptiveHigh = 0.03;
constexpr double kAdaptiveLow = 2e-6;
// So high, and a loss far above its start, however it swings.
constexpr double kAdaptiveAbsurd = 0.1;
constexpr double kChaosGrowth = 10;
// SGD has no such scale: its rate is judged by update over weight, which should be near 1e-3
// (DeepDiagnosis flags a factor of 100 either way).
constexpr double kRatioHigh = 0.1;
constexpr double kRatioLow = 1e-6;
constexpr double kSgdHigh = 1.0;
constexpr int64_t kZeroSteps = 100;
constexpr int64_t kZeroStepsAtEnd = 40;
// No schedule is made to leave more steps without a rate than with one.
constexpr double kVanishedShare = 0.5;
// In all steps together no weight matrix can have changed by more than this part of itself.
constexpr double kDrift = 1e-4;
constexpr double kDriftRate = 1e-5;
constexpr int64_t kDriftSteps = 200;
constexpr int64_t kDriftStepsAtEnd = 100;
constexpr int64_t kStepsHeld = 60;  // plateaus of this length are common in healthy runs
constexpr int64_t kStepsHeldAtEnd = 20;
constexpr int kDivergedSteps = 3;

enum class Family : uint8_t { kAdaptive, kSgd, kOther };

// Adadelta, Adagrad, Rprop and LBFGS have scales of their own and are not judged.
Family family_of(const std::string& class_name) {
  for (const char* name : {"Adam", "AdamW", "NAdam", "RAdam", "Adamax", "RMSprop", "Lion"}) {
    if (class_name == name) return Family::kAdaptive;
  }
  return class_name == "SGD" ? Family::kSgd : Family::kOther;
}

class LearningRateRange : public Rule {
 public:
  using Rule::Rule;

  void on_stats(const store::StatsRow& row) override {
    if (row.tensor->sizes.size() < 2 || row.stats.non_finite() > 0) return;
    const double rms = row.stats.rms();
    if (row.tensor->kind == store::Kind::kWeight) {
      if (weights_.size() < kTensorsMax) weights_[row.tensor->name] = rms;
    } else if (row.tensor->kind == store::Kind::kGradient) {
      const auto weight = weights_.find(row.tensor->name);
      if (weight == weights_.end() || weight->second <= 0) return;
      largest_ratio_ = std::max(largest_ratio_, rms / weight->second);
      sampled_ = true;
    }
  }

  void on_step(int64_t step) override {
    if (sampled_) ratio_ = largest_ratio_;
    highest_ratio_ = std::max(highest_ratio_, largest_ratio_);
    sampled_ = false;
    largest_ratio_ = 0;
    if (told_) {
      // What was learnt before the rate vanished says nothing for what comes after.
      if (facts().learning() == Learning::kLearns && !vanished_since()) {
        recover();
      } else if (told_->severity != Severity::kInfo) {
        report(*told_);  // for its last step
      }
      return;
    }
    judge_zero(kZeroSteps);
    judge_vanished(kZeroSteps);
    judge_drift(kDriftSteps);
    judge_effect(step, kStepsHeld);
  }

  void finish() override {
    if (!told_) judge_zero(kZeroStepsAtEnd);
    if (!told_) judge_vanished(kZeroStepsAtEnd);
    if (!told_) judge_drift(kDriftStepsAtEnd);
    if (!told_) judge_effect(facts().newest().step, kStepsHeldAtEnd);
  }

 private:
  // Warm-up begins at exactly zero in healthy runs, but leaves it.
  void judge_zero(int64_t steps) {
    if (facts().learning_rates().empty()) return;
    int64_t first_step = INT64_MAX;
    for (const auto& [name, rate] : facts().learning_rates()) {
      if (rate.high > 0) return;
      first_step = std::min(first_step, rate.first_step);
    }
    if (facts().newest().step - first_step < steps) return;
    tell(0, 0, "the learning rate is 0 in all steps: nothing is trained");
  }

  // A schedule that was made for epochs and is stepped with each batch.
  void judge_vanished(int64_t steps) {
    const auto since = vanished_since();
    if (!since) return;
    const auto& rates = facts().learning_rates();
    int64_t first_step = INT64_MAX;
    for (const auto& [name, rate] : rates) first_step = std::min(first_step, rate.first_step);
    const int64_t without = facts().newest().step - *since;
    const auto all = static_cast<double>(facts().newest().step - first_step);
    if (without < steps || static_cast<double>(without) < kVanishedShare * all) return;
    const LearningRate& rate = rates.begin()->second;
    tell(rate.newest, LearningRate::kVanished * rate.high,
         fmt::format("the learning rate has fallen from {:.3g} to {:.3g} by step {}: what comes "
                     "after trains nothing",
                     rate.high, rate.newest, *since));
  }

  // From which step on no optimizer has had a rate to speak of.
  [[nodiscard]] std::optional<int64_t> vanished_since() const {
    int64_t since = -1;
    for (const auto& [name, rate] : facts().learning_rates()) {
      if (rate.vanished_at < 0) return std::nullopt;
      since = std::max(since, rate.vanished_at);
    }
    return since < 0 ? std::nullopt : std::optional(since);
  }

  // A rate so low that the loss need not be asked. A model that was trained before may be where it
  // should be, and its gradients small.
  void judge_drift(int64_t steps) {
    const auto& optimizers = facts().optimizers();
    if (optimizers.size() != 1 || !ratio_ || facts().newest().step < steps) return;
    if (facts().trained_before() || facts().learning() == Learning::kLearns) return;
    if (family_of(optimizers.front().class_name) != Family::kSgd) return;
    double high = 0;
    for (const auto& [name, rate] : facts().learning_rates()) high = std::max(high, rate.high);
    const double effective = high / (1 - std::min(0.999, optimizers.front().momentum));
    const double drift =
        effective * highest_ratio_ * static_cast<double>(facts().newest().step + 1);
    if (high <= 0 || high > kDriftRate || highest_ratio_ <= 0 || drift > kDrift) return;
    tell(high, kDriftRate,
         fmt::format("the learning rate {:.3g} is too low: all {} steps together changed no weight "
                     "matrix by more than {:.2g} of its size",
                     high, facts().newest().step + 1, drift));
  }

  void judge_effect(int64_t step, int64_t held) {
    const bool diverges = facts().diverged_steps() >= kDivergedSteps;
    const Learning learning = diverges ? Learning::kWorse : facts().learning();
    const bool grows =
        learning == Learning::kWorse || learning == Learning::kRises || is_chaos(learning);
    const bool bad = grows || learning == Learning::kStalled;
    if (!bad || facts().learning_rates().empty() || facts().optimizers().size() != 1) {
      held_.miss();
      return;
    }
    held_.hit(step);
    if (held_.hits() < held && !diverges) return;
    const OptimizerFact& optimizer = facts().optimizers().front();
    double high = 0;
    for (const auto& [name, rate] : facts().learning_rates()) high = std::max(high, rate.high);
    const Family family = family_of(optimizer.class_name);
    // A steady gradient adds up to 1 / (1 - momentum) times itself.
    const double effective =
        family == Family::kSgd && optimizer.momentum < 1 ? high / (1 - optimizer.momentum) : high;
    if (family == Family::kAdaptive) {
      if (high >= kAdaptiveHigh) {
        tell(
            high, kAdaptiveHigh,
            fmt::format("the learning rate {:.3g} is too high for {}", high, optimizer.class_name));
      } else if (high <= kAdaptiveLow && learning == Learning::kStalled) {
        tell(high, kAdaptiveLow,
             fmt::format("the learning rate {:.3g} is too low for {}", high, optimizer.class_name));
      }
    } else if (family == Family::kSgd && ratio_) {
      judge_sgd(effective, high, grows);
    }
  }

  // Swings too much for a trend, but far above where it began.
  [[nodiscard]] bool is_chaos(Learning learning) const {
    const LossFact* loss = facts().only_loss();
    if (learning == Learning::kLearns || loss == nullptr) return false;
    const auto absurd = [](const auto& entry) { return entry.second.high >= kAdaptiveAbsurd; };
    const auto& rates = facts().learning_rates();
    const LossVerdict& verdict = loss->track.verdict();
    return std::any_of(rates.begin(), rates.end(), absurd) && verdict.start > 0 &&
           verdict.recent > std::max(1.0, kChaosGrowth * verdict.start);
  }

  void judge_sgd(double effective, double high, bool grows) {
    const double change = effective * *ratio_;
    if (high >= kSgdHigh || (change > kRatioHigh && grows)) {
      tell(high, high >= kSgdHigh ? kSgdHigh : kRatioHigh,
           fmt::format("the learning rate {:.3g} is too high: a step changed a weight matrix by up "
                       "to {:.2g} of its size",
                       high, effective * highest_ratio_));
    } else if (change > 0 && change < kRatioLow && !grows) {
      tell(high, kRatioLow,
           fmt::format("the learning rate {:.3g} is too low: a step changes no weight matrix by "
                       "more than {:.2g} of its size",
                       high, change));
    }
  }

  void tell(double value, double limit, std::string message) {
    Finding finding;
    finding.severity = Severity::kWarning;
    const auto& rates = facts().learning_rates();
    finding.step = rates.begin()->second.first_step;
    finding.kind = "scalar";
    finding.tensor = rates.begin()->first;
    finding.value = value;
    finding.threshold = limit;
    finding.where = made();
    finding.confidence = 0.85;
    finding.message = std::move(message);
    for (const auto& [name, rate] : rates) {
      finding.evidence.push_back(fmt::format("{}: {:.3g} to {:.3g}", name, rate.low, rate.high));
      if (finding.evidence.size() + 1 >= kEvidencePerFindingMax) break;
    }
    if (const LossFact* loss = facts().only_loss()) {
      const LossVerdict& verdict = loss->track.verdict();
      finding.evidence.push_back(fmt::format("the loss goes from {:.4g} to {:.4g} in {} steps",
                                             verdict.told_start(), verdict.recent, verdict.steps));
    }
    told_ = finding;
    report(std::move(finding));
  }

  // The line that made the optimizer, as a rule the one with the rate.
  [[nodiscard]] std::optional<Where> made() const {
    const auto& optimizers = facts().optimizers();
    if (optimizers.size() != 1 || optimizers.front().made.line <= 0) return std::nullopt;
    return optimizers.front().made;
  }

  void recover() {
    if (told_->severity == Severity::kInfo) return;
    told_->severity = Severity::kInfo;
    told_->message += "; since then the loss falls";
    report(*told_);
  }

  std::unordered_map<std::string, double> weights_;  // RMS in the newest sample
  bool sampled_ = false;
  double largest_ratio_ = 0;     // of gradient to weight, in this step
  double highest_ratio_ = 0;     // in any sample
  std::optional<double> ratio_;  // in the newest sample
  Streak held_;
  std::optional<Finding> told_;
};

}  // namespace

RuleEntry learning_rate_range_rule() {
  return {{"learning_rate_range",
           Severity::kWarning,
           "The learning rate cannot work",
           "It is 0 in every step; or for half of the fit next to nothing of what it was; or all "
           "steps of SGD together can't change a weight matrix by more than 1e-4 of it; or the "
           "loss stands still or grows and the rate is out of "
           "range: for Adam and its kin above 0.03 or below 2e-6, for SGD above 1 or one that "
           "changes weights by more than a tenth or less than a millionth in a step "
           "(DeepDiagnosis: the change should be near 1e-3). A warm-up from 0 is none.",
           "start from 1e-3 for Adam, 1e-2 to 1e-1 for SGD with momentum, and move it by factors "
           "of 3",
           {{"adaptive_high", kAdaptiveHigh, 0, 100, "Adam and its kin"},
            {"adaptive_low", kAdaptiveLow, 0, 1, "Adam and its kin"},
            {"sgd_high", kSgdHigh, 0, 1000, "SGD"},
            {"drift", kDrift, 0, 1, "change of a weight matrix in all steps, SGD up to 1e-5"},
            {"vanished_share", kVanishedShare, 0, 1, "of the steps, without a rate"},
            {"ratio_high", kRatioHigh, 0, 100, "change of a weight matrix in a step, SGD"},
            {"ratio_low", kRatioLow, 0, 1, "change of a weight matrix in a step, SGD"}}},
          &make_rule<LearningRateRange>};
}

}  // namespace paramedic::rules
