#include "cluster/lint/lint_watch.h"

#include <fmt/format.h>

#include <utility>

namespace paramedic::cluster {
namespace {

// A shell starts the ranks of a job within this time of each other, mostly.
constexpr int64_t kSettleNs = 2'000'000'000;
constexpr size_t kToldMax = 1000;

}  // namespace

void LintWatch::tick(const Moment& moment) {
  const bool settled = moment.time_ns - book_.newest_ns() >= kSettleNs;
  if (book_.newest_ns() != 0 && settled && book_.version() != judged_version_) judge();
}

void LintWatch::judge() {
  judged_version_ = book_.version();
  for (const JobSettings& job : book_.jobs()) judge(job);
}

void LintWatch::judge(const JobSettings& job) {
  std::map<std::string, int> counts;
  for (const LintRule& rule : lint_rules()) {
    if (id_ != rule.id) continue;
    for (rules::Finding& finding : lint_by(rule, job, LintMode::kAtStart)) {
      complete(job, finding);
      const std::string who = finding.rank ? std::to_string(*finding.rank) : "ranks";
      const std::string topic = fmt::format("{}/{}", rule.name, counts[rule.name + who]++);
      std::string text = to_text(finding.to_json());
      std::string& known = told_[who + topic];
      if (known == text || told_.size() > kToldMax) continue;
      known = std::move(text);
      report(std::move(finding), topic);
    }
  }
}

// The line that waits for the others is what a user can find when no start script tells more.
void LintWatch::complete(const JobSettings& job, rules::Finding& finding) const {
  for (const Setting& process : job.processes) {
    if (finding.where) return;
    const bool is_other = finding.rank && rank_in_job(process) != finding.rank;
    const Rendezvous* told = is_other ? nullptr : book_.rendezvous(process.pid);
    if (told != nullptr) finding.where = told->where;
  }
}

}  // namespace paramedic::cluster
