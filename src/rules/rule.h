#pragma once
// What a rule is: metadata written once beside it, and callbacks over the rows of one fit of one
// process. The engine makes a new instance for each fit, so a rule never has to forget. A rule
// answers from rows and Facts alone, never from a clock: replay must repeat what live said.

#include <memory>
#include <vector>

#include "rules/engine.h"
#include "rules/facts.h"
#include "rules/finding.h"
#include "store/rows.h"

namespace paramedic::rules {

// Takes what a rule found. The first report opens the problem; later ones update it. A rule fills
// in what it knows; id, fix, rank, time and mode are added by the engine.
class Reporter {
 public:
  Reporter() = default;
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;
  virtual ~Reporter() = default;
  virtual void report(Finding finding) = 0;
};

class Rule {
 public:
  // Both outlive the rule.
  Rule(const Facts& facts, Reporter& reporter) : facts_(facts), reporter_(reporter) {}
  Rule(const Rule&) = delete;
  Rule& operator=(const Rule&) = delete;
  virtual ~Rule() = default;

  // Facts have taken in the row already.
  virtual void on_stats(const store::StatsRow&) {}
  virtual void on_scalar(const store::ScalarRow&) {}
  virtual void on_event(const store::EventRow&) {}
  virtual void on_model(const store::ModelRow&) {}
  // Every row of `step` has arrived.
  virtual void on_step(int64_t /*step*/) {}
  // The fit is over: a new one began or the process ended. Comes after the last on_step.
  virtual void finish() {}

 protected:
  [[nodiscard]] const Facts& facts() const { return facts_; }
  void report(Finding finding) { reporter_.report(std::move(finding)); }

 private:
  const Facts& facts_;
  Reporter& reporter_;
};

struct RuleEntry {
  RuleInfo info;
  std::unique_ptr<Rule> (*make)(const Facts&, Reporter&);
};

template <typename T>
std::unique_ptr<Rule> make_rule(const Facts& facts, Reporter& reporter) {
  return std::make_unique<T>(facts, reporter);
}

// All built-in rules, in the order of builtin/list.inc (registry.cc).
const std::vector<RuleEntry>& rule_entries();

// Counts the sightings in a row, so that a single odd step is no alarm.
class Streak {
 public:
  void hit(int64_t step) {
    if (hits_++ == 0) first_step_ = step;
    misses_ = 0;
  }
  void see(bool seen, int64_t step) { seen ? hit(step) : miss(); }
  // Forgets after `tolerated` misses in a row: one calm sample within a storm is noise too.
  void miss(int tolerated = 0) {
    if (++misses_ > tolerated) hits_ = 0;
  }
  [[nodiscard]] int hits() const { return hits_; }
  [[nodiscard]] int misses() const { return misses_; }
  [[nodiscard]] int64_t first_step() const { return first_step_; }

 private:
  int hits_ = 0;
  int misses_ = 0;
  int64_t first_step_ = -1;
};

// Told apart once for all rules.
constexpr size_t kTensorsPerFindingMax = 64;
constexpr size_t kEvidencePerFindingMax = 12;

}  // namespace paramedic::rules
