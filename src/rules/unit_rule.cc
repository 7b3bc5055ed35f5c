#include "rules/unit_rule.h"

#include <fmt/format.h>

namespace paramedic::rules {

void UnitRule::tell(const Layers& layers, const char* word, Finding finding) {
  const auto& [worst_share, worst] = layers.front();
  finding.severity = Severity::kWarning;
  finding.tensor = worst;
  finding.kind = "activation";
  finding.value = -worst_share;
  finding.where = facts().made(worst);
  for (const auto& [share, name] : layers) {
    finding.tensors.push_back(name);
    finding.evidence.push_back(fmt::format("{}: {:.0f} % {}", name, -100 * share, word));
  }
  told_ = finding;
  report(std::move(finding));
}

void UnitRule::recover(std::string (*message)(const std::string& layer, int64_t step)) {
  if (!told_ || told_->severity == Severity::kInfo) return;
  if (facts().learning() != Learning::kLearns) return;
  told_->severity = Severity::kInfo;
  told_->message = message(*told_->tensor, *told_->step);
  report(*told_);
}

}  // namespace paramedic::rules
