#pragma once
// What a verdict between ranks explains in the findings of single ranks: a NaN that another rank
// has given is no fault of those that got it, and that input comes late is told once, with its
// line. Stands between the judges of ranks and of the job, and who keeps their findings. One
// thread.

#include <map>
#include <string>

#include "rules/engine.h"

namespace paramedic::cluster {

class Explained : public rules::FindingSink {
 public:
  explicit Explained(rules::FindingSink& sink) : sink_(sink) {}

  // Hands everything on; what is explained, before or after it was told, as an info.
  void on_finding(const std::string& key, const rules::Finding& finding) override;

 private:
  // What of the job explains it; null when nothing does.
  [[nodiscard]] const rules::Finding* cause_of(const rules::Finding& finding) const;
  void add_cause(const std::string& key, const rules::Finding& finding);

  rules::FindingSink& sink_;
  std::map<std::string, rules::Finding> causes_;  // by key
  std::map<std::string, rules::Finding> loud_;    // what may come to be explained, by key
};

}  // namespace paramedic::cluster
