#include "cli/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/path.h"
#include "cli/failure_view.h"
#include "cli/render_text.h"
#include "cli/report.h"

namespace paramedic::cli {
namespace {

constexpr size_t kProblemsShown = 10;

std::string verdict(const std::vector<Problem>& problems, bool has_failed, const Paint& paint) {
  size_t errors = 0;
  size_t warnings = 0;
  for (const Problem& problem : problems) {
    errors += problem.finding.severity == rules::Severity::kError ? 1 : 0;
    warnings += problem.finding.severity == rules::Severity::kWarning ? 1 : 0;
  }
  if (errors + warnings == 0) {
    return has_failed ? paint(Style::kError, "failed") : paint(Style::kGood, "healthy");
  }
  return paint(errors > 0 ? Style::kError : Style::kWarning, counted(errors + warnings, "problem"));
}

std::string facts(const store::RunInfo& info) {
  std::string text = counted(static_cast<uint64_t>(std::max<int64_t>(info.steps, 0)), "step");
  if (info.overhead_percent) text += fmt::format(", overhead {:.2f} %", *info.overhead_percent);
  if (info.dropped_records > 0) text += ", " + counted(info.dropped_records, "record") + " dropped";
  return text;
}

}  // namespace

std::string render_summary(const supervise::JobOutcome& outcome,
                           const std::optional<store::RunInfo>& info, const Paint& paint) {
  std::vector<Problem> problems;
  problems.reserve(outcome.findings.size());
  for (const rules::Finding& finding : outcome.findings) problems.push_back({finding, {}});
  sort_problems(problems);
  const std::string prefix = "paramedic: ";
  std::string text;
  const bool seen = info && !info->framework.empty();
  const bool has_failed = info && info->status == "failed";
  if (seen || !problems.empty()) {
    text +=
        prefix + verdict(problems, has_failed, paint) + (info ? " · " + facts(*info) : "") + "\n";
  } else if (info && info->status != "running") {  // else run.json could not be written
    text += prefix + "no framework was seen";
    if (!info->not_captured.empty()) text += ": " + clean(info->not_captured.front().second);
    text += '\n';
  }
  for (size_t i = 0; i < problems.size() && i < kProblemsShown; i++) {
    text += "  " + problem_line(problems[i].finding, paint) + "\n";
  }
  if (problems.size() > kProblemsShown) {
    text += fmt::format("  and {} more\n", problems.size() - kProblemsShown);
  }
  if (has_failed && info->failure.is_object()) {
    text += prefix + paint(Style::kError, "why") + " " + clean(failure_line(info->failure)) + "\n";
  }
  if (outcome.run_dir.empty()) return text;
  const std::string name(base_name(outcome.run_dir));
  // A run outside the default folder is named by its path, which is right from anywhere.
  const bool is_default = outcome.run_dir == "paramedic-runs/" + name ||
                          (info && outcome.run_dir == info->cwd + "/paramedic-runs/" + name);
  const std::string shown = is_default ? name : outcome.run_dir;
  return text + paint(Style::kDim, prefix + "paramedic show " + command_text({shown})) + "\n";
}

}  // namespace paramedic::cli
