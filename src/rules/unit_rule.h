#pragma once
// What rules about the units of hidden layers share: which layers are bad, the worst one in front,
// and that they came back. As a rule: one instance for each fit of one process.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rules/rule.h"

namespace paramedic::rules {

class UnitRule : public Rule {
 public:
  using Rule::Rule;

 protected:
  // Bad layers: minus the share of their units, and their names. Sorted, the worst stands first.
  using Layers = std::vector<std::pair<double, std::string>>;

  // Reports `layers` (not empty, sorted); `finding` has the step, the threshold, the confidence and
  // the message. `word` says what the units are: "dead".
  void tell(const Layers& layers, const char* word, Finding finding);
  // Where something was told: it is over. `message` with the layer and the step it was told of.
  void recover(std::string (*message)(const std::string& layer, int64_t step));
  [[nodiscard]] bool has_told() const { return told_.has_value(); }

 private:
  std::optional<Finding> told_;
};

}  // namespace paramedic::rules
