#pragma once
// The lint of a job's configuration: a table of small rules, each a pure function over what the
// processes were started with and what is known of their hosts. No I/O, no clock.

#include <functional>
#include <string>
#include <vector>

#include "cluster/lint/setting.h"
#include "rules/finding.h"

namespace paramedic::cluster {

// What a rule found. `process`: the one that is at fault, of the job that was given; nullptr when
// it is no single one. `variable`: whose place in a start script is shown.
struct Complaint {
  const Setting* process = nullptr;
  std::string variable;
  std::string message;
  std::vector<std::string> evidence;
};
using Complain = std::function<void(Complaint)>;

// Sure: the job cannot work, or works wrongly, so that it is said aloud at the start of every run.
// Advice: worth a look in `cluster lint`, a note (info) otherwise.
enum class LintGrade : uint8_t { kSure, kAdvice };

struct LintRule {
  const char* name;  // "master_port_differs"; `kind` of the finding
  const char* id;    // of the finding
  rules::Severity severity;
  LintGrade grade;
  const char* title;
  const char* fix;
  void (*check)(const JobSettings&, const Complain&);
};

// All rules, in the order of their reports.
const std::vector<LintRule>& lint_rules();

enum class LintMode : uint8_t {
  kAsked,    // `cluster lint`: every rule in its own severity
  kAtStart,  // of a run: advice is info
};
std::vector<rules::Finding> lint(const JobSettings& job, LintMode mode);

// Only the rule of that name; the tests' way in.
std::vector<rules::Finding> lint_by(const LintRule& rule, const JobSettings& job, LintMode mode);

// As its launcher told it; of a task of TensorFlow, its place among the ranks.
std::optional<int32_t> rank_in_job(const Setting& process);

// Where the script that started `process` sets `variable`; nothing when it does not.
std::optional<rules::Where> place_in_script(const Setting& process, const std::string& variable);

// The tables that lint_rules() joins, one for each file.
std::vector<LintRule> launch_rules();
std::vector<LintRule> address_rules();
std::vector<LintRule> network_rules();
std::vector<LintRule> variable_rules();
std::vector<LintRule> limit_rules();
std::vector<LintRule> tf_config_rules();

// What several rules need.
// The processes that know their rank, and all but launchers.
std::vector<const Setting*> ranks_of(const JobSettings& job);
std::vector<const Setting*> members_of(const JobSettings& job);
// Those whose value of `variable` is not that of the strict majority, nobody where there is none;
// a missing variable is the value "".
struct Odd {
  std::vector<const Setting*> processes;
  std::string majority;
};
using ValueOf = std::function<std::string(const Setting&)>;
Odd odd_ones(const std::vector<const Setting*>& processes, const ValueOf& value_of);
std::string value_or_empty(const Setting& process, const std::string& variable);
// "'29500' on rank 0, rank 1; '29501' on rank 2", the fewest first.
std::string who_has_what(const std::vector<const Setting*>& processes, const ValueOf& value_of);

}  // namespace paramedic::cluster
