// Tensors that grow out of all measure while the numbers are still finite.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "rules/rule.h"

namespace paramedic::rules {

namespace {

// Growth over the run's own first samples: targets that are not standardised make gradients of
// 1e6 that are healthy, so absolute limits cannot work (TheDeepChecker's 1e6 does not).
constexpr double kGradientGrowth = 1e3;
constexpr double kWeightGrowth = 100;
constexpr double kLossGrowth = 10;
// What began as next to nothing (a last layer drawn within 1e-3, as in reinforcement learning) has
// not exploded before it is large: weights of an RMS of 1, gradients likewise.
constexpr double kWeightFloor = 1e-2;
constexpr double kGradientFloor = 1e-3;
// Nothing that is trained in float32 works with such elements.
constexpr double kAbsurd = 1e18;
constexpr int kBaselineSamples = 3;
constexpr int kSamples = 2;
constexpr int kNonFiniteSamples = 4;
constexpr int kDivergedSteps = 3;

struct Track {
  double baseline = 0;  // the largest RMS of the first samples
  int samples = 0;
};

class ExplodingTensor : public Rule {
 public:
  using Rule::Rule;

  void on_stats(const store::StatsRow& row) override {
    const store::Kind kind = row.tensor->kind;
    const bool gradient = kind == store::Kind::kGradient;
    if (!gradient && kind != store::Kind::kWeight) return;
    sampled_ = true;
    if (row.stats.non_finite() > 0) {
      // A loss scaler makes and skips these; those with a lost loss are nan_origin's.
      if (gradient && !facts().amp()) note_non_finite(row);
      return;
    }
    auto found = tracks_.find(row.tensor);
    if (found == tracks_.end()) {
      if (tracks_.size() >= 2 * kTensorsMax) return;
      found = tracks_.emplace(row.tensor, Track{}).first;
    }
    Track& track = found->second;
    const double rms = row.stats.rms();
    if (track.samples < kBaselineSamples && !loss_has_grown()) {
      ++track.samples;
      track.baseline = std::max(track.baseline, rms);
    }
    const double growth = gradient ? kGradientGrowth : kWeightGrowth;
    const double floor = gradient ? kGradientFloor : kWeightFloor;
    const double limit = growth * std::max(track.baseline, floor);
    const bool grown = track.baseline > 0 && rms > limit;
    if ((grown && loss_has_grown()) || row.stats.max_abs() > kAbsurd) {
      const double ratio = track.baseline > 0 ? rms / track.baseline : 0;
      note_worst(row, ratio, rms, track.baseline > 0 ? limit : 0);
    }
  }

  void on_step(int64_t step) override {
    if (facts().diverged_steps() == kDivergedSteps) tell_divergence(step);
    const bool sampled = sampled_;
    sampled_ = false;
    if (!sampled) return;
    if (facts().lost_steps() > 0) {
      names_.clear();
      return;  // nan_origin tells what happened.
    }
    judge_growth(step);
    judge_non_finite(step);
    names_.clear();
    non_finite_names_.clear();
    worst_ratio_ = -1;
  }

 private:
  [[nodiscard]] bool loss_has_grown() const {
    const LossFact* loss = facts().only_loss();
    if (loss == nullptr || first_of(*loss) <= 0) return false;
    const std::optional<double> newest = loss->track.newest();
    return newest && *newest > kLossGrowth * first_of(*loss);
  }

  // The first losses, until there are enough steps for the track's own median.
  [[nodiscard]] double first_of(const LossFact& loss) const { return loss.track.head_level(); }

  void note_non_finite(const store::StatsRow& row) {
    if (non_finite_names_.size() < kTensorsPerFindingMax) {
      non_finite_names_.push_back(row.tensor->name);
    }
  }

  void note_worst(const store::StatsRow& row, double ratio, double rms, double limit) {
    const bool listed = !names_.empty() && names_.back() == row.tensor->name;
    if (!listed && names_.size() < kTensorsPerFindingMax) names_.push_back(row.tensor->name);
    if (ratio <= worst_ratio_) return;
    worst_ratio_ = ratio;
    worst_.tensor = row.tensor->name;
    worst_.kind = row.tensor->kind == store::Kind::kGradient ? "gradient" : "weight";
    worst_.value = rms;
    worst_.threshold = limit > 0 ? limit : kAbsurd;
    worst_.where = facts().made(facts().module_name_of(row.tensor->name));
    const LossFact* loss = facts().only_loss();
    // A bare parameter has no module: the line of backward() is the nearest that is known.
    if (!worst_.where && loss != nullptr && loss->where.line > 0) worst_.where = loss->where;
  }

  void judge_growth(int64_t step) {
    if (names_.empty()) {
      growth_.miss();
      return;
    }
    growth_.hit(step);
    if (growth_.hits() < kSamples) return;
    told_ = true;
    Finding finding = worst_;
    finding.severity = Severity::kError;
    finding.step = growth_.first_step();
    finding.confidence = 0.95;
    finding.tensors = names_;
    finding.message = fmt::format(
        "the {} of {} has grown to {:.3g} RMS since step {} (limit {:.3g})", *finding.kind,
        *finding.tensor, *finding.value, growth_.first_step(), *finding.threshold);
    if (worst_ratio_ > 0) {
      finding.evidence.push_back(
          fmt::format("that is {:.0f} times its first samples", worst_ratio_));
    }
    if (const LossFact* loss = facts().only_loss()) {
      finding.evidence.push_back(fmt::format("loss {:.4g} at first, {:.4g} now", first_of(*loss),
                                             loss->track.newest().value_or(NAN)));
    }
    report(std::move(finding));
  }

  // Between two samples of the tensors the loss alone can tell.
  void tell_divergence(int64_t step) {
    const LossFact* loss = facts().only_loss();
    if (told_) return;
    told_ = true;
    Finding finding;
    finding.severity = Severity::kError;
    finding.step = step - kDivergedSteps + 1;
    finding.kind = "loss";
    finding.value = loss->track.newest();
    finding.threshold = LossTrack::kDivergedFactor * loss->track.head_level();
    finding.where = loss->where;
    finding.confidence = 0.95;
    finding.message = fmt::format("the loss has grown to {:.3g}, over a million times its start",
                                  loss->track.newest().value_or(NAN));
    report(std::move(finding));
  }

  void judge_non_finite(int64_t step) {
    if (non_finite_names_.empty()) {
      non_finite_.miss();
      return;
    }
    non_finite_.hit(step);
    if (non_finite_.hits() < kNonFiniteSamples) return;
    Finding finding;
    finding.severity = Severity::kError;
    finding.step = non_finite_.first_step();
    finding.kind = "gradient";
    finding.tensor = non_finite_names_.front();
    finding.tensors = non_finite_names_;
    finding.confidence = 0.9;
    finding.where = facts().made(facts().module_name_of(*finding.tensor));
    finding.message = fmt::format("the gradient of {} is not finite since step {}, the loss is",
                                  *finding.tensor, non_finite_.first_step());
    report(std::move(finding));
  }

  std::unordered_map<const store::TensorInfo*, Track> tracks_;
  Streak growth_;
  Streak non_finite_;
  bool sampled_ = false;
  bool told_ = false;
  double worst_ratio_ = -1;
  Finding worst_;  // of this step
  std::vector<std::string> names_;
  std::vector<std::string> non_finite_names_;
};

}  // namespace

RuleEntry exploding_tensor_rule() {
  return {{"exploding_tensor",
           Severity::kError,
           "Weights or gradients grow out of all measure",
           "The RMS of a gradient is 1000 times (of a weight 100 times) what it was in the first "
           "samples while the loss has risen tenfold, in two samples in a row; or gradients are "
           "not finite in four samples in a row though the loss is; or the loss is a million times "
           "its first value in three steps in a row. A loss that is not finite is "
           "nan_origin's.",
           "lower the learning rate, clip the gradient norm, or normalise inputs and layers",
           {{"gradient_growth", kGradientGrowth, 1, 1e9, "times the first samples, gradients"},
            {"weight_growth", kWeightGrowth, 1, 1e9, "times the first samples, weights"},
            {"loss_growth", kLossGrowth, 1, 1e9, "times the first losses"},
            {"samples", kSamples, 1, 100, "samples in a row"}}},
          &make_rule<ExplodingTensor>};
}

}  // namespace paramedic::rules
