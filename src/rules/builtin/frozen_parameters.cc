// Layers that an optimizer holds and that no gradient ever reaches.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "rules/rule.h"

namespace paramedic::rules {

namespace {

constexpr double kShare = 0.5;  // of the weight matrices an optimizer holds
// A short job whose steps are short is sampled twice.
constexpr int64_t kSamples = 2;

class FrozenParameters : public Rule {
 public:
  using Rule::Rule;

  void on_stats(const store::StatsRow& row) override {
    if (row.tensor->kind != store::Kind::kGradient) return;
    if (reached_.size() < kTensorsMax) reached_.insert(row.tensor->name);
  }

  // Only at the end: to train a head first and the rest later is common.
  void finish() override {
    if (facts().gradient_samples() < kSamples) return;
    size_t matrices = 0;
    int64_t last_reached = -1;
    std::vector<std::pair<int64_t, std::string>> frozen;
    for (const auto& [name, parameter] : facts().parameters()) {
      const ModuleFact* module = facts().module(parameter.module);
      if (module == nullptr || !module->called || parameter.shape.size() < 2) continue;
      const bool reached = reached_.contains(name);
      if (reached) last_reached = std::max(last_reached, module->order);
      if (!parameter.trainable || facts().optimizer_of(name) < 0) continue;
      ++matrices;
      // What was loaded is kept as it is on purpose, and a table may be looked at by few.
      const bool is_table = module->class_name.find("Embedding") != std::string::npos;
      if (!reached && !module->loaded && !is_table && !facts().trained_before()) {
        frozen.emplace_back(module->order, name);
      }
    }
    // What comes after all that is trained may be an output that the loss does not use.
    std::erase_if(frozen, [&](const auto& entry) { return entry.first >= last_reached; });
    if (frozen.empty() ||
        static_cast<double>(frozen.size()) < kShare * static_cast<double>(matrices)) {
      return;
    }
    std::sort(frozen.begin(), frozen.end());
    tell(frozen, matrices);
  }

 private:
  void tell(const std::vector<std::pair<int64_t, std::string>>& frozen, size_t matrices) {
    Finding finding;
    finding.severity = Severity::kWarning;
    finding.step = 0;
    finding.kind = "gradient";
    finding.tensor = frozen.front().second;
    finding.value = static_cast<double>(frozen.size()) / static_cast<double>(matrices);
    finding.threshold = kShare;
    finding.confidence = 0.85;
    finding.where = facts().made(facts().module_name_of(frozen.front().second));
    for (const auto& [order, name] : frozen) finding.tensors.push_back(name);
    finding.message = fmt::format(
        "{} of the {} weight matrices that the optimizer holds never had a gradient, though the "
        "layers after them have",
        frozen.size(), matrices);
    report(std::move(finding));
  }

  std::set<std::string> reached_;
};

}  // namespace

RuleEntry frozen_parameters_rule() {
  return {{"frozen_parameters",
           Severity::kWarning,
           "Layers are not trained by mistake",
           "Of the weight matrices an optimizer holds half or more never had a gradient in the "
           "whole fit, though their layers are called and layers after them are trained: the graph "
           "is cut between. Not judged: parameters with requires_grad off, loaded weights, "
           "embeddings, and gradients on a device.",
           "look for detach(), .data, numpy() or no_grad() between these layers and the loss",
           {{"share", kShare, 0, 1, "of the weight matrices an optimizer holds"},
            {"samples", static_cast<double>(kSamples), 1, 1e9, "of gradients at least"}}},
          &make_rule<FrozenParameters>};
}

}  // namespace paramedic::rules
