// Sigmoid-like units that sit at the end of their range whatever goes in.

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "rules/unit_rule.h"

namespace paramedic::rules {

namespace {

constexpr double kShare = 0.5;  // of a layer's units (smdebug, DeepDiagnosis)
constexpr uint32_t kBatches = 2;
constexpr uint32_t kSamplesOfUnit = 64;
constexpr int kWindows = 2;
// A layer whose outputs are nearly all at the ends in its very first sample was never able to
// learn: no loss is needed. Healthy layers got there to 44 %, and only by learning.
constexpr double kShareFromStart = 0.9;
constexpr int kSamplesFromStart = 3;
constexpr int kSamplesAtEnd = 2;  // enough when the job is over: short ones have no more
constexpr uint64_t kElementsOfBatch = 256;
// Codes of a hashing network and binary units are at the ends on purpose, and the loss falls to a
// small part. Layers that only the raw inputs drive there learn too, but not so much.
constexpr double kLearntShare = 0.8;

bool squashes(const std::string& class_name) {
  for (const char* part : {"Sigmoid", "Tanh", "sigmoid", "tanh", "Softsign"}) {
    if (class_name.find(part) != std::string::npos) return true;
  }
  return false;
}

struct Layer {
  Streak frozen;
  bool from_start = true;  // every sample so far was over kShareFromStart
  int samples = 0;
  int64_t first_step = -1;
  double outside = 0;  // share of the newest sample
  uint32_t units_frozen = 0;
  uint32_t units = 0;
};

class SaturatedActivation : public UnitRule {
 public:
  using UnitRule::UnitRule;

  void on_stats(const store::StatsRow& row) override {
    const ModuleFact* module = facts().hidden_units(row);
    if (module == nullptr || !squashes(module->class_name)) return;
    Layer& layer = layers_[row.tensor->name];
    if (row.stats.count >= kElementsOfBatch) {
      layer.outside = static_cast<double>(row.outside) / static_cast<double>(row.stats.count);
      if (layer.samples++ == 0) layer.first_step = row.origin.step;
      layer.from_start = layer.from_start && layer.outside > kShareFromStart;
      sampled_ = true;
    }
    const uint64_t seen = uint64_t{row.unit_batches} * (row.stats.count / row.units);
    if (row.unit_batches < kBatches || seen < kSamplesOfUnit) return;
    layer.units_frozen = row.units_frozen;
    layer.units = row.units;
    layer.frozen.see(row.units_frozen > kShare * row.units, row.origin.step);
    sampled_ = true;
  }

  void on_step(int64_t /*step*/) override {
    if (!sampled_) return;
    sampled_ = false;
    judge();
  }

  void finish() override {
    if (has_told()) return;
    samples_needed_ = kSamplesAtEnd;
    judge();
    // Of a short job whose steps are short there is only the first, and the loss must say the rest.
    if (has_told() || facts().learning() == Learning::kLearns) return;
    samples_needed_ = 1;
    judge();
  }

 private:
  void judge() {
    const Learning learning = facts().learning();
    // Gates that have learnt to be open or shut are frozen too, and right.
    const bool stuck = learning == Learning::kStalled || learning == Learning::kWorse;
    Layers frozen;
    int64_t first_step = INT64_MAX;
    bool from_start = false;
    const bool on_purpose = has_learnt();
    for (const auto& [name, layer] : layers_) {
      const bool born_so = saturated_from_start(layer) && !on_purpose;
      const bool by_units = layer.frozen.hits() >= kWindows && (stuck || has_told());
      if (!born_so && !by_units) continue;
      from_start = from_start || born_so;
      frozen.emplace_back(-share_of(layer), name);
      first_step = std::min(first_step, born_so ? layer.first_step : layer.frozen.first_step());
    }
    std::sort(frozen.begin(), frozen.end());
    if (!frozen.empty() && (from_start || learning != Learning::kLearns)) {
      tell(frozen, "saturated", finding_of(frozen.front().second, first_step));
    } else {
      recover([](const std::string& layer, int64_t step) {
        return fmt::format("units of {} were saturated from step {}, but the loss falls now", layer,
                           step);
      });
    }
  }

  [[nodiscard]] bool has_learnt() const {
    const LossFact* loss = facts().only_loss();
    return loss != nullptr && facts().learning() == Learning::kLearns &&
           loss->track.verdict().fallen > kLearntShare;
  }

  [[nodiscard]] bool saturated_from_start(const Layer& layer) const {
    return layer.samples >= samples_needed_ && layer.from_start;
  }

  // Of all outputs in the first case, of units that never move in the second.
  [[nodiscard]] double share_of(const Layer& layer) const {
    return saturated_from_start(layer) ? layer.outside
                                       : static_cast<double>(layer.units_frozen) / layer.units;
  }

  Finding finding_of(const std::string& worst, int64_t first_step) {
    const Layer& layer = layers_[worst];
    Finding finding;
    finding.step = first_step;
    finding.threshold = saturated_from_start(layer) ? kShareFromStart : kShare;
    finding.confidence = 0.85;
    finding.message =
        saturated_from_start(layer)
            ? fmt::format(
                  "{:.0f} % of the outputs of {} are at the end of their range since step {} "
                  "(limit {:.0f} %)",
                  100 * layer.outside, worst, first_step, 100 * kShareFromStart)
            : fmt::format(
                  "{} of {} units of {} are at the end of their range for every sample since step "
                  "{} (limit {:.0f} %)",
                  layer.units_frozen, layer.units, worst, first_step, 100 * kShare);
    return finding;
  }

  bool sampled_ = false;
  int samples_needed_ = kSamplesFromStart;
  std::map<std::string, Layer> layers_;
};

}  // namespace

RuleEntry saturated_activation_rule() {
  return {
      {"saturated_activation",
       Severity::kWarning,
       "Hidden sigmoid or tanh units are at the end of their range",
       "More than half of a hidden layer's units (smdebug, DeepDiagnosis) were outside the "
       "moving range for all samples of a window, in two windows in a row, while the loss "
       "stands still or grows; or more than nine tenths of its outputs were so in every "
       "sample from the first on, unless the loss has fallen to a fifth (in the only sample, "
       "unless it falls at all). Output layers are not judged.",
       "standardise the inputs, use a smaller initialisation or learning rate, or ReLU or "
       "normalisation between the layers",
       {{"share", kShare, 0, 1, "of a layer's units"},
        {"share_from_start", kShareFromStart, 0, 1, "of a layer's outputs, from the first step"},
        {"batches", kBatches, 1, 1000, "of a window at least"},
        {"windows", kWindows, 1, 100, "in a row"}}},
      &make_rule<SaturatedActivation>};
}

}  // namespace paramedic::rules
