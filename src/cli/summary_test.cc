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
  for (const Report& report :
       {healthy_report(), vanishing_report(), nan_report(), empty_report()}) {
    all += "--- " + clean(report.name) + "\n";
    all += render_summary(outcome_of(report), report.info, Paint(false));
  }
  supervise::JobOutcome unwritable;
  unwritable.notes = {
      "cannot create the folder paramedic-runs: Permission denied; nothing is kept"};
  all += "--- unwritable\n" + render_summary(unwritable, std::nullopt, Paint(false));
  expect_golden("summary.txt", all);
}

TEST(Summary, a_python_that_keeps_us_out_is_named) {
  const auto why = [](std::vector<std::string> command) { return why_nothing_seen(command); };
  EXPECT_NE(why({"python", "-I", "train.py"}).find("-I"), std::string::npos);
  EXPECT_NE(why({"/usr/bin/python3.11", "-uE", "train.py"}).find("-E"), std::string::npos);
  EXPECT_NE(why({"env", "python3", "-S", "-c", "pass"}).find("-S"), std::string::npos);
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"python", "train.py", "-I"},
                                             {"python", "-m", "train", "-S"},
                                             {"python", "-W", "Error", "train.py"},
                                             {"python", "-X", "Importtime", "train.py"},
                                             {"python", "-c", "print('E')"}}) {
    EXPECT_EQ(why(command), "the script imported none that Paramedic knows (torch)");
  }
  EXPECT_EQ(why({"./train.sh", "-I"}), "");
}

}  // namespace
}  // namespace paramedic::cli
