#pragma once
// Runs the rules over rows, live or replayed, with the same result: the engine never looks at a
// clock, at other processes' order, or at anything but the rows. One thread. Memory is bounded:
// each rule keeps a fixed amount for each tensor name, at most kTensorsMax names a process.

#include <memory>
#include <string>
#include <vector>

#include "rules/finding.h"
#include "store/rows.h"

namespace paramedic::rules {

constexpr size_t kTensorsMax = 100'000;

// Told of every new or changed finding, as it stands now. `key` names the problem: the newest
// finding of a key replaces the ones before it.
class FindingSink {
 public:
  FindingSink() = default;
  FindingSink(const FindingSink&) = delete;
  FindingSink& operator=(const FindingSink&) = delete;
  virtual ~FindingSink() = default;
  virtual void on_finding(const std::string& key, const Finding& finding) = 0;
};

class Engine : public store::RowSink {
 public:
  // All built-in rules with default parameters. `sink` outlives the engine.
  static std::unique_ptr<Engine> create(FindingSink& sink);
  // The job has ended: rules that wait for more may decide now.
  virtual void finish() = 0;
};

// For `rules list`, `rules explain`, the docs and the page: written once, beside each rule.
struct ParameterInfo {
  const char* name;
  double default_value;
  double min;
  double max;
  const char* what;
};
struct RuleInfo {
  const char* id;
  Severity severity;
  const char* title;  // one line
  const char* what;   // when it fires, in words, with its source
  const char* fix;    // what to do
  std::vector<ParameterInfo> parameters;
};
const std::vector<RuleInfo>& builtin_rules();

}  // namespace paramedic::rules
