#pragma once
// The lint rules of one id over the settings of a run's processes, as a watch.

#include <map>
#include <string>
#include <vector>

#include "cluster/lint/lint.h"
#include "cluster/lint/settings_book.h"
#include "cluster/watch.h"

namespace paramedic::cluster {

class LintWatch : public Watch {
 public:
  // `id` of the findings whose rules are judged: "cluster_config".
  LintWatch(Reporter& reporter, const char* id) : Watch(reporter), id_(id) {}

  void on_event(const store::EventRow& row) override { book_.take(row); }
  void tick(const Moment& moment) override;
  void finish() override { judge(); }

 private:
  void judge();
  void judge(const JobSettings& job);
  void complete(const JobSettings& job, rules::Finding& finding) const;

  const std::string id_;
  SettingsBook book_;
  uint64_t judged_version_ = 0;
  std::map<std::string, std::string> told_;  // by topic: the finding as it was told
};

}  // namespace paramedic::cluster
