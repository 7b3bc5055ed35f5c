// Gradients that die out on their way back through the layers.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "rules/rule.h"

namespace paramedic::rules {

namespace {

// smdebug's limit on mean |g|. Alone it flags biases before normalisation, converged models and
// sparse layers, so the share of the largest layer's gradient is asked for as well.
constexpr double kLimit = 1e-7;
constexpr double kShare = 1e-6;
constexpr int kSamples = 3;
constexpr int kSamplesAtEnd = 2;  // enough when the job is over without progress
// AUTOTRAINER's weaker sign (a ratio below 1e-3 and a small norm): only when the loss stands still.
constexpr double kWeakLimit = 1e-5;
constexpr double kWeakShare = 1e-3;
constexpr int kWeakSamples = 5;
// When even the largest gradient is this small the model has converged, or nothing arrives.
constexpr double kLargestMin = 1e-6;
// One layer alone may be small for its own reasons (queries and keys of attention are).
constexpr size_t kLayersMin = 2;
constexpr int kCalmSamples = 3;

struct Layer {
  std::string tensor;
  int64_t order = -1;
  double mean_abs = 0;
};

// The layers at the input side whose gradient is below `limit` and `share` of the largest, or
// none when others further on are too: then it is no chain that dies out.
size_t vanished(const std::vector<Layer>& layers, double largest, double limit, double share) {
  const auto small = [&](const Layer& layer) {
    return layer.mean_abs < limit && layer.mean_abs < share * largest;
  };
  const auto first_large = std::find_if_not(layers.begin(), layers.end(), small);
  if (std::any_of(first_large, layers.end(), small)) return 0;
  // All exactly zero is a cut, not a decay.
  const bool decays = std::any_of(layers.begin(), first_large,
                                  [](const Layer& layer) { return layer.mean_abs > 0; });
  const auto count = static_cast<size_t>(first_large - layers.begin());
  return decays && count >= kLayersMin ? count : 0;
}

class VanishingGradient : public Rule {
 public:
  using Rule::Rule;

  void on_stats(const store::StatsRow& row) override {
    if (row.tensor->kind != store::Kind::kGradient || row.tensor->sizes.size() < 2) return;
    if (row.stats.finite() == 0 || row.stats.non_finite() > 0) return;
    const std::string module = facts().module_name_of(row.tensor->name);
    const ModuleFact* fact = facts().module(module);
    if (fact != nullptr && fact->class_name.find("Embedding") != std::string::npos) return;
    // Elements that no sample touched say nothing about those that were.
    const uint64_t touched = row.stats.finite() - row.stats.zero;
    const double mean = touched == 0 ? 0 : row.stats.sum_abs / static_cast<double>(touched);
    const int64_t order = fact != nullptr ? fact->order : -1;
    layers_[facts().optimizer_of(row.tensor->name)].push_back({row.tensor->name, order, mean});
  }

  void on_step(int64_t step) override {
    if (layers_.empty()) return;
    auto groups = std::move(layers_);
    layers_.clear();
    std::vector<Layer> worst;
    size_t strong = 0;
    size_t weak = 0;
    for (auto& [optimizer, layers] : groups) {
      std::stable_sort(layers.begin(), layers.end(),
                       [](const Layer& a, const Layer& b) { return a.order < b.order; });
      double largest = 0;
      for (const Layer& layer : layers) largest = std::max(largest, layer.mean_abs);
      if (largest < kLargestMin) continue;
      strong = vanished(layers, largest, kLimit, kShare);
      weak = std::max(strong, vanished(layers, largest, kWeakLimit, kWeakShare));
      if (weak > 0) {
        worst = std::move(layers);
        break;
      }
    }
    count(strong_, strong > 0, step);
    count(weak_, weak > 0, step);
    const bool stalled = facts().learning() == Learning::kStalled;
    if (strong_.hits() >= kSamples && strong > 0) {
      tell(worst, strong, strong_.first_step(), kLimit);
    } else if (stalled && weak_.hits() >= kWeakSamples && weak > 0) {
      tell(worst, weak, weak_.first_step(), kWeakLimit);
    } else if (told_ && weak == 0) {
      recover();
    }
    newest_ = std::move(worst);
    newest_strong_ = strong;
  }

  // Short jobs have few samples.
  void finish() override {
    const bool few = strong_.hits() >= kSamplesAtEnd && strong_.hits() < kSamples;
    if (told_ || !few || newest_strong_ == 0) return;
    if (facts().learning() != Learning::kStalled) return;
    tell(newest_, newest_strong_, strong_.first_step(), kLimit);
  }

 private:
  static void count(Streak& streak, bool seen, int64_t step) {
    if (seen) {
      streak.hit(step);
    } else {
      streak.miss(1);
    }
  }

  void tell(const std::vector<Layer>& layers, size_t count, int64_t first_step, double limit) {
    const Layer& first = layers.front();
    Finding finding;
    finding.severity = Severity::kError;
    finding.step = first_step;
    finding.tensor = first.tensor;
    finding.kind = "gradient";
    finding.value = first.mean_abs;
    finding.threshold = limit;
    finding.where = facts().made(facts().module_name_of(first.tensor));
    finding.confidence = limit == kLimit ? 0.97 : 0.8;
    finding.message =
        fmt::format("the mean absolute gradient of {} is {:.2g} since step {} (limit {:.0e})",
                    first.tensor, first.mean_abs, first_step, limit);
    for (size_t i = 0; i < count; ++i) finding.tensors.push_back(layers[i].tensor);
    explain(layers, finding.evidence);
    told_ = finding;
    calm_ = 0;
    report(std::move(finding));
  }

  void explain(const std::vector<Layer>& layers, std::vector<std::string>& evidence) const {
    const auto largest =
        std::max_element(layers.begin(), layers.end(),
                         [](const Layer& a, const Layer& b) { return a.mean_abs < b.mean_abs; });
    evidence.push_back(fmt::format("mean |g| of {} is {:.2g}", largest->tensor, largest->mean_abs));
    const auto first = std::find_if(layers.begin(), layers.end(),
                                    [](const Layer& layer) { return layer.mean_abs > 0; });
    if (largest > first) {
      const double fall =
          std::pow(largest->mean_abs / first->mean_abs, 1.0 / static_cast<double>(largest - first));
      evidence.push_back(fmt::format("mean |g| falls by {:.2g}x per layer", fall));
    }
    // The activation that most layers on this way end in.
    std::map<std::string, int> classes;
    for (const auto& [name, module] : facts().modules()) {
      for (const char* squashing : {"Sigmoid", "Tanh", "Softsign", "Hardtanh", "Softmax"}) {
        if (module.class_name == squashing) ++classes[module.class_name];
      }
    }
    const auto most =
        std::max_element(classes.begin(), classes.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most != classes.end() && most->second >= 2) {
      evidence.push_back(fmt::format("{} … {} end in {}", facts().module_name_of(first->tensor),
                                     facts().module_name_of(layers.back().tensor), most->first));
    }
  }

  // A slow start that is over is worth a note, not an alarm.
  void recover() {
    if (told_->severity == Severity::kInfo) return;
    if (++calm_ < kCalmSamples || facts().learning() != Learning::kLearns) return;
    told_->severity = Severity::kInfo;
    told_->message = fmt::format(
        "the gradient of {} was vanishing from step {}, but grew and the "
        "loss falls now",
        *told_->tensor, *told_->step);
    report(*told_);
  }

  std::map<int, std::vector<Layer>> layers_;  // of this step, by optimizer
  std::vector<Layer> newest_;                 // of the newest sample, when some have vanished
  size_t newest_strong_ = 0;                  // of these, by the strong limit
  Streak strong_;
  Streak weak_;
  std::optional<Finding> told_;
  int calm_ = 0;
};

}  // namespace

RuleEntry vanishing_gradient_rule() {
  return {{"vanishing_gradient",
           Severity::kError,
           "Gradients die out towards the first layers",
           "The mean |g| of the weight matrices at the input side is below the limit (smdebug's "
           "1e-7) and a millionth of the largest layer's, in three samples in a row; or below "
           "1e-5 and a thousandth (after AUTOTRAINER) in five while the loss stands still. "
           "Biases, embeddings, frozen and converged models are not judged.",
           "use ReLU or normalisation between the layers, residual connections, or a scaled "
           "initialisation",
           {{"limit", kLimit, 0, 1, "mean |g| of the first layers"},
            {"share", kShare, 0, 1, "of the largest layer's mean |g|"},
            {"samples", kSamples, 1, 100, "samples in a row"},
            {"weak_limit", kWeakLimit, 0, 1, "mean |g| while the loss stands still"},
            {"weak_share", kWeakShare, 0, 1, "share while the loss stands still"},
            {"weak_samples", kWeakSamples, 1, 100, "samples while the loss stands still"}}},
          &make_rule<VanishingGradient>};
}

}  // namespace paramedic::rules
