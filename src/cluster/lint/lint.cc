#include "cluster/lint/lint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "cluster/lint/tf_config.h"

namespace paramedic::cluster {
namespace {

// Of one rule: what comes after them says nothing new.
constexpr size_t kComplaintsMax = 32;
constexpr size_t kNamesShown = 8;

rules::Severity severity_of(const LintRule& rule, LintMode mode) {
  const bool quiet = mode == LintMode::kAtStart && rule.grade == LintGrade::kAdvice;
  return quiet ? rules::Severity::kInfo : rule.severity;
}

// How well a line fits: it sets the variable to this very value, and it starts this very rank.
int fit_of(const Setting& process, int32_t line, const std::string& variable) {
  int fit = 0;
  for (const Assignment& assignment : process.assignments) {
    if (assignment.line != line) continue;
    const std::string* value = process.variable(assignment.name);
    const bool is_same = value != nullptr && *value == assignment.value;
    if (assignment.name == variable) fit += is_same ? 8 : 4;
    const bool names_rank = assignment.name == "RANK" || assignment.name == "LOCAL_RANK";
    if (names_rank && assignment.name != variable) fit += is_same ? 3 : 0;
    const bool is_literal = assignment.value.find('$') == std::string::npos;
    if (is_literal && !is_same) fit -= 6;
  }
  return fit;
}

}  // namespace

std::optional<int32_t> rank_in_job(const Setting& process) {
  if (const auto rank = process.rank()) return static_cast<int32_t>(*rank);
  const std::string* text = process.variable("TF_CONFIG");
  return text == nullptr ? std::nullopt : parse_tf_config(*text).rank();
}

std::optional<rules::Where> place_in_script(const Setting& process, const std::string& variable) {
  int best = 0;
  int32_t best_line = 0;
  for (const Assignment& assignment : process.assignments) {
    if (assignment.name != variable) continue;
    const int fit = fit_of(process, assignment.line, variable);
    if (best_line != 0 && fit <= best) continue;
    best = fit;
    best_line = assignment.line;
  }
  if (best_line == 0) return std::nullopt;
  return rules::Where{process.script, best_line, ""};
}

const std::vector<LintRule>& lint_rules() {
  static const std::vector<LintRule> kRules = [] {
    std::vector<LintRule> all;
    for (auto part : {launch_rules(), address_rules(), network_rules(), variable_rules(),
                      limit_rules(), tf_config_rules()}) {
      std::move(part.begin(), part.end(), std::back_inserter(all));
    }
    return all;
  }();
  return kRules;
}

std::vector<rules::Finding> lint_by(const LintRule& rule, const JobSettings& job, LintMode mode) {
  std::vector<rules::Finding> findings;
  rule.check(job, [&](Complaint complaint) {
    if (findings.size() >= kComplaintsMax) return;
    rules::Finding finding;
    finding.id = rule.id;
    finding.severity = severity_of(rule, mode);
    finding.kind = rule.name;
    finding.stage = "start";
    finding.confidence = rule.grade == LintGrade::kSure ? 0.95 : 0.6;
    finding.message = std::move(complaint.message);
    finding.evidence = std::move(complaint.evidence);
    finding.fix = rule.fix;
    if (complaint.process != nullptr) {
      finding.rank = rank_in_job(*complaint.process);
      finding.where = place_in_script(*complaint.process, complaint.variable);
    } else if (!complaint.variable.empty() && !job.processes.empty()) {
      finding.where = place_in_script(job.processes.front(), complaint.variable);
    }
    findings.push_back(std::move(finding));
  });
  return findings;
}

std::vector<rules::Finding> lint(const JobSettings& job, LintMode mode) {
  std::vector<rules::Finding> all;
  for (const LintRule& rule : lint_rules()) {
    auto found = lint_by(rule, job, mode);
    std::move(found.begin(), found.end(), std::back_inserter(all));
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.severity > b.severity; });
  return all;
}

std::vector<const Setting*> ranks_of(const JobSettings& job) {
  std::vector<const Setting*> ranks;
  for (const Setting& process : job.processes) {
    if (!process.is_launcher() && process.rank()) ranks.push_back(&process);
  }
  return ranks;
}

std::vector<const Setting*> members_of(const JobSettings& job) {
  std::vector<const Setting*> members;
  for (const Setting& process : job.processes) {
    if (!process.is_launcher()) members.push_back(&process);
  }
  return members;
}

std::string value_or_empty(const Setting& process, const std::string& variable) {
  const std::string* value = process.variable(variable);
  return value == nullptr ? std::string() : *value;
}

std::string who_has_what(const std::vector<const Setting*>& processes, const ValueOf& value_of) {
  std::map<std::string, std::vector<std::string>> by_value;
  for (const Setting* process : processes) by_value[value_of(*process)].push_back(process->name);
  std::vector<std::pair<std::string, std::vector<std::string>>> groups(by_value.begin(),
                                                                       by_value.end());
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  std::vector<std::string> parts;
  for (auto& [value, names] : groups) {
    if (names.size() > kNamesShown) {
      const size_t others = names.size() - kNamesShown;
      names.resize(kNamesShown);
      names.push_back(fmt::format("{} others", others));
    }
    parts.push_back(fmt::format("'{}' on {}", value, fmt::join(names, ", ")));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

Odd odd_ones(const std::vector<const Setting*>& processes, const ValueOf& value_of) {
  std::map<std::string, size_t> counts;
  for (const Setting* process : processes) ++counts[value_of(*process)];
  Odd odd;
  if (counts.size() < 2) return odd;
  for (const auto& [value, count] : counts) {
    if (2 * count > processes.size()) odd.majority = value;
  }
  // Also where "" is the majority: it must really be one.
  if (2 * counts[odd.majority] <= processes.size()) return odd;
  for (const Setting* process : processes) {
    if (value_of(*process) != odd.majority) odd.processes.push_back(process);
  }
  return odd;
}

}  // namespace paramedic::cluster
