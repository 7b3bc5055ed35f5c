#include <gtest/gtest.h>

#include "cli/golden.h"
#include "cli/render_fleet.h"

namespace paramedic::cli {
namespace {

fleet::Job job(const std::string& name, diagnose::Category category, double day) {
  fleet::Job made;
  made.name = name;
  made.owner = "ada";
  made.command = "/job:[\"python\",\"" + name.substr(0, name.find('-')) + ".py\"]";
  made.category = category;
  made.domain = diagnose::info(category).domain;
  made.retry = diagnose::info(category).retry;
  made.stage = diagnose::Stage::kTrain;
  made.mechanism = "m";
  made.fingerprint = std::string(diagnose::name(category)) + ":train.main:m";
  made.message = "<b>it</b> failed";
  made.started = (20000 + day) * 86400;
  made.seconds = 3600;
  made.ranks = 8;
  return made;
}

fleet::Tables sample() {
  using diagnose::Category;
  return fleet::make_tables(
      {job("alex-1", Category::kPathNotFound, 0), job("alex-2", Category::kPathNotFound, 1),
       job("alex-3", Category::kPathNotFound, 3), job("bert-1", Category::kGpuOutOfMemory, 3),
       job("bert-2", Category::kNoFailure, 4), job("clip-1", Category::kUnknown, 4)});
}

TEST(Fleet, golden_text) {
  expect_golden("fleet.txt", fleet_text(sample(), Paint(false), 100));
  expect_golden("fleet.json", to_json(sample()).dump(1) + "\n");
}

TEST(Fleet, page_holds_every_table_and_no_markup_of_the_logs) {
  const std::string page = fleet_html(sample(), "/logs/<week>");
  for (const char* part : {"path_not_found", "by day", "the same failure again", "useless retries",
                           "/logs/&lt;week&gt;", "&lt;b&gt;it&lt;/b&gt; failed"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(page.find("<b>it"), std::string::npos);
  EXPECT_EQ(page.find("https:"), std::string::npos);
}

TEST(Fleet, nothing_but_a_summary_of_nothing) {
  EXPECT_EQ(fleet_text(fleet::make_tables({}), Paint(false), 80),
            "0 jobs: 0 failed (0.0 %), 0 did not\n");
}

}  // namespace
}  // namespace paramedic::cli
