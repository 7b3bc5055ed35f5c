// Weights that begin where no training can begin.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "rules/rule.h"

namespace paramedic::rules {

namespace {

// Standard deviation of a layer's output over that of its input, for independent weights: 0.6 to
// 1.7 for the initialisations of PyTorch, Keras and He; drawn with deviation 1 it is sqrt(inputs).
constexpr double kGain = 5;
constexpr double kShare = 0.5;  // of the weight matrices
constexpr int kMatrices = 2;
constexpr int64_t kUnits = 4;
// A classifier that knows nothing is at ln(classes).
constexpr double kStart = 5;

struct Matrix {
  int64_t order = -1;
  bool constant = false;
  bool zero = false;
  double gain = 0;
};

class PoorWeightInitialization : public Rule {
 public:
  using Rule::Rule;

  void on_stats(const store::StatsRow& row) override {
    if (judged_ || row.tensor->kind != store::Kind::kWeight || row.tensor->sizes.size() < 2) return;
    if (matrices_.contains(row.tensor->name) || matrices_.size() >= kTensorsMax) return;
    const ModuleFact* module = facts().module(facts().module_name_of(row.tensor->name));
    const ParameterFact* parameter = facts().parameter(row.tensor->name);
    if (module == nullptr || module->loaded || module->order < 0 || !module->called) return;
    if (parameter == nullptr || !parameter->trainable || row.stats.non_finite() > 0) return;
    // Rows of a table are no sums, and the sides of a transposed convolution are exchanged.
    for (const char* part : {"Embedding", "Transpose"}) {
      if (module->class_name.find(part) != std::string::npos) return;
    }
    const int64_t units = row.tensor->sizes.front();
    if (units < kUnits || row.stats.count < 2 * static_cast<uint64_t>(units)) return;
    Matrix& matrix = matrices_[row.tensor->name];
    matrix.order = module->order;
    matrix.constant = row.stats.min == row.stats.max;
    matrix.zero = row.stats.zero == row.stats.count;
    const double inputs = static_cast<double>(row.stats.count) / static_cast<double>(units);
    matrix.gain = row.stats.std() * std::sqrt(inputs);
  }

  // The first step has all weights, and the first loss.
  void on_step(int64_t step) override {
    if (judged_ || matrices_.empty()) return;
    judged_ = true;
    if (facts().trained_before()) return;
    if (!judge_constant(step)) judge_gain(step);
  }

 private:
  // Units that begin alike have the same gradients, and stay alike. Zeros alone are no fault: a
  // branch that begins at zero is made so, and begins to differ by what is beside it.
  bool judge_constant(int64_t step) {
    std::vector<std::string> alike;
    for (const auto& [name, matrix] : matrices_) {
      if (matrix.constant && !matrix.zero) alike.push_back(name);
    }
    if (alike.size() < kMatrices) return false;
    tell(step, alike, 0, 0,
         fmt::format("all weights of {} have the same value: units that begin alike stay alike",
                     alike.front()));
    return true;
  }

  void judge_gain(int64_t step) {
    const LossFact* loss = facts().only_loss();
    if (loss == nullptr) return;
    const std::optional<double> chance = facts().chance_level(*loss);
    const std::optional<double> start = loss->track.newest();
    if (!chance || !start || !std::isfinite(*start) || *start < kStart * *chance) return;
    std::vector<std::pair<double, std::string>> large;
    for (const auto& [name, matrix] : matrices_) {
      if (matrix.gain > kGain) large.emplace_back(-matrix.gain, name);
    }
    const double share = static_cast<double>(large.size()) / static_cast<double>(matrices_.size());
    if (large.size() < kMatrices || share < kShare) return;
    std::sort(large.begin(), large.end());
    std::vector<std::string> names;
    for (const auto& [gain, name] : large) names.push_back(name);
    tell(step, names, -large.front().first, kGain,
         fmt::format("the weights of {} are drawn so large that the layer multiplies what comes in "
                     "by {:.3g}; the first loss is {:.3g}, that of guessing {:.3g}",
                     names.front(), -large.front().first, *start, *chance));
  }

  void tell(int64_t step, const std::vector<std::string>& names, double value, double limit,
            std::string message) {
    Finding finding;
    finding.severity = Severity::kWarning;
    finding.step = step;
    finding.kind = "weight";
    finding.tensor = names.front();
    finding.tensors = names;
    if (limit > 0) {
      finding.value = value;
      finding.threshold = limit;
    }
    finding.confidence = 0.85;
    finding.where = facts().made(facts().module_name_of(names.front()));
    finding.message = std::move(message);
    report(std::move(finding));
  }

  bool judged_ = false;
  std::map<std::string, Matrix> matrices_;
};

}  // namespace

RuleEntry poor_weight_initialization_rule() {
  return {{"poor_weight_initialization",
           Severity::kWarning,
           "The weights begin badly",
           "In the first sample two weight matrices or more hold one value that is not zero; or "
           "half of them and at least two would make the spread of what comes in more than five "
           "times larger (smdebug compares the variances of layers, with a limit of ten), and the "
           "first cross entropy is five times that of guessing. Not judged: loaded weights, "
           "embeddings, zeros.",
           "use the library's initialisation (kaiming for ReLU, xavier for tanh) and draw the "
           "weights anew",
           {{"gain", kGain, 1, 1e6, "of a layer, by its weights"},
            {"share", kShare, 0, 1, "of the weight matrices"},
            {"start", kStart, 1, 1e6, "of the first loss, over that of guessing"}}},
          &make_rule<PoorWeightInitialization>};
}

}  // namespace paramedic::rules
