#include "cli/summary.h"

#include <gtest/gtest.h>

#include "cli/golden.h"
#include "cli/sample_report.h"

namespace paramedic::cli {
namespace {

supervise::JobOutcome outcome_of(const Report& report) {
  supervise::JobOutcome outcome;
  outcome.run_dir = report.info.dir;
  for (const Problem& problem : report.problems) outcome.findings.push_back(problem.finding);
  return outcome;
}

TEST(Summary, golden_summaries) {
  std::string all;
  for (Report report : {healthy_report(), vanishing_report(), nan_report(), empty_report()}) {
    report.info.status = "finished";  // a summary comes at the end of a run
    all += "--- " + clean(report.name) + "\n";
    all += render_summary(outcome_of(report), report.info, Paint(false));
  }
  const Report failed = failed_report();
  all += "--- " + failed.name + "\n";
  all += render_summary(outcome_of(failed), failed.info, Paint(false));
  expect_golden("summary.txt", all);
}

}  // namespace
}  // namespace paramedic::cli
