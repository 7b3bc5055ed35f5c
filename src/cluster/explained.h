#pragma once
// What a verdict between ranks explains in the findings of single ranks: a NaN that another rank
// has given is no fault of those that got it. Stands between the judges of ranks and of the job,
// and who keeps their findings. One thread.

#include <map>
#include <optional>
#include <string>

#include "rules/engine.h"

namespace paramedic::cluster {

class Explained : public rules::FindingSink {
 public:
  explicit Explained(rules::FindingSink& sink) : sink_(sink) {}

  // Hands everything on; what is explained, before or after it was told, as an info.
  void on_finding(const std::string& key, const rules::Finding& finding) override;

 private:
  [[nodiscard]] bool came_from_another(const rules::Finding& finding) const;
  [[nodiscard]] rules::Finding as_info(rules::Finding finding) const;

  rules::FindingSink& sink_;
  std::optional<rules::Finding> source_;            // nan_source_rank, when it names one rank
  std::map<std::string, rules::Finding> nan_told_;  // nan_origin as an error, by key
};

}  // namespace paramedic::cluster
