// Rectified units that are zero whatever goes in.

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "rules/unit_rule.h"

namespace paramedic::rules {

namespace {

// smdebug's share of a layer. Its test of single elements flags healthy layers, which are often
// more than half zero; units that were zero for every sample of several batches are rare there.
constexpr double kShare = 0.5;
constexpr double kShareAlone = 0.9;  // enough without looking at the loss
constexpr uint32_t kBatches = 8;
constexpr uint32_t kSamplesOfUnit = 2000;  // instead of batches, when these are large
constexpr int kWindows = 2;
constexpr int kWindowsAlone = 3;
// A window of batches spans hundreds of steps, so units that die in the middle of one count only
// in the next. A layer that gives next to nothing in a single batch tells so at once: healthy ones
// were up to 66 % zero in any batch, dead ones 94 to 100 %.
constexpr double kSilentShare = 0.9;
constexpr double kSilentShareAlone = 0.995;
constexpr uint64_t kElementsOfBatch = 256;
// A dead unit's own weights and bias have gradients of exactly zero. These are sampled more often
// than activations, and tell of rectifiers that are functions as well.
constexpr uint64_t kElementsOfGradient = 32;

bool rectifies(const std::string& class_name) {
  return class_name.find("ReLU") != std::string::npos &&
         class_name.find("Leaky") == std::string::npos;
}

// What else ends in exactly zero when it is driven far enough.
bool squashes(const std::string& class_name) {
  for (const char* part : {"Sigmoid", "sigmoid", "Tanh", "tanh", "Threshold", "Softmax"}) {
    if (class_name.find(part) != std::string::npos) return true;
  }
  return false;
}

struct Layer {
  Streak half;    // more than kShare dead
  Streak almost;  // more than kShareAlone dead
  Streak quiet;   // more than kSilentShare of the elements zero
  Streak silent;  // more than kSilentShareAlone
  double zero_share = 0;
  uint32_t dead = 0;
  uint32_t units = 0;
  bool told = false;
};

// A module with a weight matrix, by its gradients.
struct Shut {
  int64_t order = -1;
  bool biased = false;
  bool seen = false;  // in this step
  double matrix = 0;  // share of the gradient that is exactly zero
  double bias = 1;
  bool weights_zero = false;  // so that it is no wonder
  Streak shut;
};

class DeadRelu : public UnitRule {
 public:
  using UnitRule::UnitRule;

  void on_stats(const store::StatsRow& row) override {
    if (row.tensor->kind == store::Kind::kGradient || row.tensor->kind == store::Kind::kWeight) {
      on_parameter(row);
      return;
    }
    const ModuleFact* module = facts().hidden_units(row);
    if (module == nullptr || !rectifies(module->class_name)) return;
    Layer& layer = layers_[row.tensor->name];
    if (row.stats.count >= kElementsOfBatch) {
      layer.zero_share = static_cast<double>(row.stats.zero) / static_cast<double>(row.stats.count);
      layer.quiet.see(layer.zero_share > kSilentShare, row.origin.step);
      layer.silent.see(layer.zero_share > kSilentShareAlone, row.origin.step);
      sampled_ = true;
    }
    const uint64_t seen = uint64_t{row.unit_batches} * (row.stats.count / row.units);
    if (row.unit_batches < kBatches && (row.unit_batches < 2 || seen < kSamplesOfUnit)) return;
    layer.dead = row.units_dead;
    layer.units = row.units;
    const double share = static_cast<double>(row.units_dead) / row.units;
    layer.half.see(share > kShare, row.origin.step);
    layer.almost.see(share > kShareAlone, row.origin.step);
    sampled_ = true;
  }

  void on_step(int64_t step) override {
    if (gradients_sampled_) judge_gradients(step);
    if (!sampled_) return;
    sampled_ = false;
    judge();
  }

  // The loss may have had its say only after the last sample.
  void finish() override {
    if (!has_told()) judge();
  }

 private:
  void on_parameter(const store::StatsRow& row) {
    const size_t dimensions = row.tensor->sizes.size();
    if (dimensions == 0 || row.stats.count == 0 || row.stats.non_finite() > 0) return;
    const std::string name = facts().module_name_of(row.tensor->name);
    const ModuleFact* module = facts().module(name);
    if (module == nullptr || module->class_name.find("Embedding") != std::string::npos) return;
    const double zero = static_cast<double>(row.stats.zero) / static_cast<double>(row.stats.count);
    const bool gradient = row.tensor->kind == store::Kind::kGradient;
    if (gradient && zero < 1) alive_order_ = std::max(alive_order_, module->order);
    if (!facts().weights_follow(name)) return;
    const auto found = shut_.find(name);
    if (!gradient) {
      if (found != shut_.end() && dimensions >= 2) found->second.weights_zero = zero == 1;
      return;
    }
    gradients_sampled_ = true;
    if (dimensions < 2) {
      // Of a module that has a matrix as well, whose row comes first.
      if (found == shut_.end()) return;
      found->second.biased = true;
      found->second.bias = zero;
    } else if (row.stats.count >= kElementsOfGradient && shut_.size() < kTensorsMax) {
      Shut& layer = shut_[name];
      layer.order = module->order;
      layer.matrix = zero;
      layer.seen = true;
    }
  }

  void judge_gradients(int64_t step) {
    gradients_sampled_ = false;
    sampled_ = true;
    for (auto& [name, layer] : shut_) {
      if (!layer.seen) continue;
      layer.seen = false;
      const double least = layer.biased ? std::min(layer.matrix, layer.bias) : layer.matrix;
      // Where nothing behind it has a gradient either it is not this layer's fault.
      const bool reached = alive_order_ > layer.order && !layer.weights_zero;
      layer.shut.see(least > kShareAlone && reached, step);
    }
    alive_order_ = -1;
  }

  // Of the layers that no gradient reaches the last one stops it.
  void add_shut(Layers& dead, int64_t& first_step) {
    if (!may_rectify()) return;
    const Shut* last = nullptr;
    std::string last_name;
    for (const auto& [name, layer] : shut_) {
      if (layer.shut.hits() < kWindows || (last != nullptr && layer.order < last->order)) continue;
      last = &layer;
      last_name = name;
    }
    if (last == nullptr) return;
    // Where activations were seen to be dead they say it better.
    if (!dead.empty()) return;
    dead.emplace_back(last->biased ? -last->bias : -last->matrix, last_name);
    first_step = std::min(first_step, last->shut.first_step());
  }

  // Whether a module rectifies, or the activations are functions, which are not known by class.
  [[nodiscard]] bool may_rectify() const {
    bool known = false;
    for (const auto& [name, module] : facts().modules()) {
      if (rectifies(module.class_name)) return true;
      known = known || squashes(module.class_name);
    }
    return !known;
  }

  void judge() {
    const Learning learning = facts().learning();
    const bool stuck = learning == Learning::kStalled || learning == Learning::kWorse;
    Layers dead;
    int64_t first_step = INT64_MAX;
    for (auto& [name, layer] : layers_) {
      const bool alone = std::max(layer.almost.hits(), layer.silent.hits()) >= kWindowsAlone &&
                         learning != Learning::kLearns;
      const bool with_loss = std::max(layer.half.hits(), layer.quiet.hits()) >= kWindows && stuck;
      const bool still = layer.half.hits() > 0 || layer.quiet.hits() > 0;
      // Once told it stays in the list while its units stay dead.
      layer.told = (layer.told && still) || alone || with_loss;
      if (!layer.told) continue;
      dead.emplace_back(-share_of(layer), name);
      if (layer.half.hits() > 0) first_step = std::min(first_step, layer.half.first_step());
      if (layer.quiet.hits() > 0) first_step = std::min(first_step, layer.quiet.first_step());
    }
    if (stuck || facts().guesses()) add_shut(dead, first_step);
    if (dead.empty()) {
      recover([](const std::string& layer, int64_t step) {
        return fmt::format(
            "units of {} were dead from step {}, but came back and the loss falls now", layer,
            step);
      });
      return;
    }
    std::sort(dead.begin(), dead.end());
    tell(dead, "dead", finding_of(dead.front().second, first_step));
  }

  static bool silent(const Layer& layer) { return layer.quiet.hits() > 0; }

  // Of units that are dead, or of outputs that are zero where the window of units is behind.
  static double share_of(const Layer& layer) {
    const double dead = layer.units > 0 ? static_cast<double>(layer.dead) / layer.units : 0;
    return silent(layer) ? std::max(dead, layer.zero_share) : dead;
  }

  Finding finding_of(const std::string& worst, int64_t first_step) {
    Finding finding;
    finding.step = first_step;
    finding.confidence = 0.9;
    if (!layers_.contains(worst)) {
      finding.threshold = kShareAlone;
      finding.message = fmt::format(
          "{:.0f} % of the gradient of {} is exactly zero since step {}: its units pass nothing on "
          "(limit {:.0f} %)",
          100 * shut_[worst].matrix, worst, first_step, 100 * kShareAlone);
      return finding;
    }
    const Layer& layer = layers_[worst];
    finding.threshold = silent(layer) ? kSilentShare : kShare;
    finding.message =
        silent(layer)
            ? fmt::format("{:.0f} % of the outputs of {} are zero since step {} (limit {:.0f} %)",
                          100 * layer.zero_share, worst, first_step, 100 * kSilentShare)
            : fmt::format(
                  "{} of {} units of {} are zero for every sample since step {} (limit {:.0f} %)",
                  layer.dead, layer.units, worst, first_step, 100 * kShare);
    return finding;
  }

  bool sampled_ = false;
  bool gradients_sampled_ = false;
  int64_t alive_order_ = -1;  // of the last module with a gradient, in this step
  std::map<std::string, Layer> layers_;
  std::map<std::string, Shut> shut_;
};

}  // namespace

RuleEntry dead_relu_rule() {
  return {
      {"dead_relu",
       Severity::kWarning,
       "Units behind a ReLU are always zero",
       "More than half of a hidden layer's units (smdebug's share) were zero for all samples "
       "of several batches, in two windows in a row, while the loss stands still; or more "
       "than nine tenths in three, unless the loss falls. Or more than nine tenths of all "
       "outputs are zero while the loss stands still, or practically all unless it falls. Or "
       "more than nine tenths of the gradient of a layer and of its bias are exactly zero in two "
       "samples in a row while the loss stands still or is that of guessing. A lower share of zero "
       "outputs is not used: it flags 46 to 63 % of healthy models.",
       "lower the learning rate, use a leaky ReLU or normalisation, and check the bias "
       "initialisation",
       {{"share", kShare, 0, 1, "of a layer's units, while the loss stands still"},
        {"share_alone", kShareAlone, 0, 1, "of a layer's units, unless the loss falls"},
        {"batches", kBatches, 1, 1000, "in which a unit must be zero"},
        {"silent_share", kSilentShare, 0, 1, "of a batch's outputs, while the loss stands still"},
        {"windows", kWindows, 1, 100, "in a row"}}},
      &make_rule<DeadRelu>};
}

}  // namespace paramedic::rules
