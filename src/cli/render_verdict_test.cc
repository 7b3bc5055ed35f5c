#include "cli/render_verdict.h"

#include <gtest/gtest.h>

#include "diagnose/diagnose.h"

namespace paramedic::cli {
namespace {

diagnose::Diagnosis sample() {
  return diagnose::diagnose_text(
      "job.log",
      "step 3 loss 0.4\n"
      "[rank1]: Traceback (most recent call last):\n"
      "[rank1]:   File \"train.py\", line 4, in main\n"
      "[rank1]:     x = d['<beam>']\n"
      "[rank1]: KeyError: '<beam>'\n"
      "[rank0]: RuntimeError: Connection closed by peer [10.0.0.2]:4242\n");
}

TEST(RenderVerdict, page_shows_the_verdict_and_the_events_of_each_rank_without_markup_of_the_log) {
  const std::string page = verdict_html(sample());
  for (const char* part : {"key_not_found", "rank 1", "rank 0", "1 failed first", "job.log:5",
                           "KeyError: &#39;&lt;beam&gt;&#39;"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(page.find("<beam>"), std::string::npos);
}

TEST(RenderVerdict, explanation_is_in_the_order_of_the_log) {
  const std::string text = explanation_text(sample(), Paint(false), 100);
  EXPECT_LT(text.find("job.log:5"), text.find("job.log:6"));
}

}  // namespace
}  // namespace paramedic::cli
