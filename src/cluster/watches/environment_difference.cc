// Ranks that run in different environments: versions, code, variables.

#include <fmt/format.h>

#include <map>
#include <utility>

#include "cluster/lint/difference.h"
#include "cluster/lint/lint.h"
#include "cluster/lint/settings_book.h"
#include "cluster/watch.h"

namespace paramedic::cluster {
namespace {

constexpr int64_t kSettleNs = 2'000'000'000;
constexpr size_t kFactsMax = 20'000;

class EnvironmentDifference : public Watch {
 public:
  using Watch::Watch;

  void on_event(const store::EventRow& row) override {
    if (book_.take(row)) return;
    if (row.kind != "facts" || facts_.size() >= kFactsMax) return;
    const auto json = parse_json(row.json, "an event");
    if (!json.ok()) return;
    facts_[row.origin.pid] = {row.origin.rank, *json};
    newest_ns_ = row.origin.time_ns;
    ++version_;
  }

  void tick(const Moment& moment) override {
    const int64_t newest_ns = std::max(newest_ns_, book_.newest_ns());
    const uint64_t version = version_ + book_.version();
    if (newest_ns == 0 || moment.time_ns - newest_ns < kSettleNs || version == judged_) return;
    judged_ = version;
    judge();
  }
  void finish() override { judge(); }

 private:
  struct Told {
    int32_t rank = 0;
    Json facts;
  };

  // A job of `python -m torch.distributed.run` and one that nobody saw start are compared alike.
  void judge() {
    auto jobs = book_.jobs();
    bool any = false;
    for (const JobSettings& job : jobs) {
      const auto ranks = ranks_of(job);
      any = any || !ranks.empty();
      judge(ranks);
    }
    if (any) return;
    std::vector<Subject> subjects;
    for (const auto& [pid, told] : facts_) {
      Subject& subject = subjects.emplace_back();
      subject.rank = told.rank;
      subject.name = fmt::format("rank {}", told.rank);
      add_facts(told.facts, subject);
    }
    judge(subjects, {});
  }

  void judge(const std::vector<const Setting*>& ranks) {
    std::vector<Subject> subjects;
    for (const Setting* process : ranks) {
      Subject& subject = subjects.emplace_back();
      add_setting(*process, subject);
      const auto told = facts_.find(process->pid);
      if (told != facts_.end()) add_facts(told->second.facts, subject);
    }
    judge(subjects, ranks);
  }

  void judge(const std::vector<Subject>& subjects, const std::vector<const Setting*>& ranks) {
    if (subjects.size() < 2) return;
    for (const Difference& difference : differences(subjects)) {
      if (difference.severity < rules::Severity::kWarning) continue;
      tell(difference, subjects, ranks);
    }
  }

  void tell(const Difference& difference, const std::vector<Subject>& subjects,
            const std::vector<const Setting*>& ranks) {
    rules::Finding finding;
    finding.severity = difference.severity;
    finding.stage = "start";
    finding.kind = difference.key;
    finding.confidence = difference.has_majority ? 0.9 : 0.7;
    const auto& odd = difference.groups.front().who;
    if (odd.size() == 1 && (difference.has_majority || only_one_has_it(difference))) {
      finding.rank = odd.front()->rank;
    }
    finding.message = "the ranks differ in " + difference_text(difference);
    finding.where = difference.where;
    const size_t at = static_cast<size_t>(odd.front() - subjects.data());
    if (!finding.where && at < ranks.size()) {
      const std::string name = difference.key.substr(difference.key.find('/') + 1);
      const bool is_package =
          difference.key.find('/') == std::string::npos || difference.key.starts_with("package/");
      finding.where = place_in_script(*ranks[at], is_package ? "PYTHONPATH" : name);
      const Rendezvous* told = book_.rendezvous(ranks[at]->pid);
      if (!finding.where && told != nullptr) finding.where = told->where;
    }
    std::string text = to_text(finding.to_json());
    std::string& known = told_[difference.key];
    if (known == text) return;
    known = std::move(text);
    report(std::move(finding), difference.key);
  }

  // Of two ranks, where the other one does not have the variable at all.
  [[nodiscard]] static bool only_one_has_it(const Difference& difference) {
    return difference.groups.size() == 2 && !difference.groups.front().value.empty() &&
           difference.groups.back().value.empty();
  }

  SettingsBook book_;
  std::map<int32_t, Told> facts_;  // by pid
  std::map<std::string, std::string> told_;
  uint64_t version_ = 0;
  uint64_t judged_ = 0;
  int64_t newest_ns_ = 0;
};

}  // namespace

WatchEntry environment_difference_watch() {
  return {{"environment_difference",
           rules::Severity::kError,
           "The ranks do not run in the same environment",
           "One rank has another version of Python, PyTorch, NCCL or CUDA, or other code of the "
           "job's own modules, than the majority (error); another version of a package, or a "
           "variable that the others do not have or have otherwise (warning). Variables that are "
           "each rank's own, such as RANK, are not compared; values of unknown variables are "
           "compared by a digest and never stored.",
           "start all ranks from the same folder, environment and variables",
           {}},
          &make_watch<EnvironmentDifference>};
}

}  // namespace paramedic::cluster
