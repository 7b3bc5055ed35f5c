// Runs every case of tests/golden/rules/RULE/{fires,quiet}*.txt. UPDATE_GOLDEN=1 rewrites what
// they expect.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "rules/golden_case.h"

namespace paramedic::rules {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = "=== findings\n";

fs::path golden_folder() { return fs::path(PARAMEDIC_SOURCE_DIR) / "tests/golden/rules"; }

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<fs::path> cases() {
  std::vector<fs::path> found;
  for (const auto& entry : fs::recursive_directory_iterator(golden_folder())) {
    if (entry.path().extension() == ".txt") found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

class GoldenCase : public testing::TestWithParam<fs::path> {};

TEST_P(GoldenCase, has_the_findings_that_its_file_states) {
  const std::string text = read(GetParam());
  CollectingSink sink;
  CasePlayer player;
  const std::unique_ptr<Engine> engine = Engine::create(sink);
  const Status played = player.play(text, *engine);
  ASSERT_TRUE(played.ok()) << played.message();
  engine->finish();
  const std::string actual = findings_text(sink);

  const size_t mark = text.find(kMark);
  const char* update = std::getenv("UPDATE_GOLDEN");
  if (update != nullptr && std::string_view(update) == "1") {
    std::ofstream(GetParam(), std::ios::binary) << text.substr(0, mark) << kMark << actual;
  } else {
    ASSERT_NE(mark, std::string::npos) << "no line '=== findings'; run with UPDATE_GOLDEN=1";
    EXPECT_EQ(actual, text.substr(mark + kMark.size()));
  }
  // Whatever the text says: a quiet case has nothing loud, a firing one has its own rule.
  const std::string rule = GetParam().parent_path().filename().string();
  bool fired = false;
  for (const auto& [key, finding] : sink.findings()) {
    const bool loud = finding.severity != Severity::kInfo;
    fired = fired || (loud && finding.id == rule);
    if (GetParam().filename().string().starts_with("quiet")) {
      EXPECT_FALSE(loud) << finding.message;
    }
  }
  if (GetParam().filename().string().starts_with("fires")) {
    EXPECT_TRUE(fired);
  }
}

INSTANTIATE_TEST_SUITE_P(all, GoldenCase, testing::ValuesIn(cases()), [](const auto& test) {
  return test.param.parent_path().filename().string() + "_" + test.param.stem().string();
});

TEST(golden, every_rule_has_a_case_that_fires_and_one_that_stays_quiet) {
  std::set<std::string> seen;
  for (const fs::path& path : cases()) {
    const std::string kind = path.filename().string().substr(0, 5);
    seen.insert(path.parent_path().filename().string() + " " + kind);
  }
  for (const RuleInfo& rule : builtin_rules()) {
    EXPECT_TRUE(seen.contains(std::string(rule.id) + " fires")) << rule.id;
    EXPECT_TRUE(seen.contains(std::string(rule.id) + " quiet")) << rule.id;
  }
}

}  // namespace
}  // namespace paramedic::rules
