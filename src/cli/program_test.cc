#include "cli/program.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "base/test_folder.h"
#include "cli/golden.h"
#include "cli/runs.h"
#include "cli/test_call.h"
#include "cluster/cluster.h"

namespace paramedic::cli {
namespace {

TEST(Program, usage_errors_end_with_2_and_leave_stdout_empty) {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"shwo"},
      {"--jsn"},
      {"show", "--jsno"},
      {"show", "a", "b"},
      {"show", "--html"},
      {"run"},
      {"run", "--"},
      {"run", "--nam", "x", "python"},
      {"run", "--overhead-budget", "lots", "true"},
      {"run", "--on", "nan_orign=stop", "true"},
      {"run", "--capture", "no-such-plan", "true"},
      {"run", "--capture", "collection g kind=gradeint", "true"},
      {"run", "--name", "../x", "true"},
      {"rules"},
      {"rules", "explain"},
      {"rules", "explain", "nonsense"},
      {"export", "a"},
      {"completions", "fish"},
      {"agent"},
  };
  for (const auto& words : wrong) {
    const Answer answer = call(words);
    std::string shown;
    for (const std::string& word : words) shown += word + " ";
    EXPECT_EQ(answer.code, 2) << shown;
    EXPECT_EQ(answer.out, "") << shown;
    EXPECT_NE(answer.err, "") << shown;
  }
}

TEST(Program, messages_say_what_and_hint_at_the_way_out) {
  std::string all;
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"shwo"},
           {"show", "--jsno"},
           {"show", "--dir", "/nonexistent"},
           {"run"},
           {"run", "--on", "nan_orign=stop", "true"},
           {"rules", "explain", "dead_rleu"},
           {"export", "a", "b"},
       }) {
    all += "$ paramedic";
    for (const std::string& word : words) all += " " + word;
    all += "\n" + call(words).err;
  }
  expect_golden("messages.txt", all);
}

TEST(Program, a_run_that_is_missing_damaged_or_newer_is_named) {
  const TemporaryFolder folder;
  write_file(folder.path() + "/damaged/run.json", "{\"format\": 1,");
  write_file(folder.path() + "/newer/run.json", "{\"format\": 999}");
  write_file(folder.path() + "/empty/note.txt", "");
  for (const char* name : {"damaged", "newer"}) {
    const Answer answer = call({"show", "--json", "--dir", folder.path(), name});
    EXPECT_EQ(answer.code, 2) << answer.err;
    EXPECT_EQ(answer.out, "");
    EXPECT_NE(answer.err.find(name), std::string::npos) << answer.err;
  }
  EXPECT_NE(call({"show", folder.path() + "/empty"}).err.find("is not a run folder"),
            std::string::npos);
  EXPECT_NE(call({"show", "--dir", folder.path(), "neewer"}).err.find("did you mean newer?"),
            std::string::npos);
}

TEST(Program, diagnose_takes_a_run_by_its_name_and_a_file_of_that_name_before_it) {
  // GIVEN a run whose log tells of a failure
  const TemporaryFolder folder;
  const std::string runs = folder.path() + "/runs";
  write_file(runs + "/r7/run.json", "{}");
  write_file(runs + "/r7/logs/rank-0.err", "KeyError: 'lr'\n");
  // WHEN it is named THEN its log is read
  Answer answer = call({"diagnose", "--dir", runs, "r7"});
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_NE(answer.out.find("key_not_found"), std::string::npos) << answer.out;
  answer = call({"diagnose", "--dir", runs, "r8"});
  EXPECT_EQ(answer.code, 2);
  EXPECT_NE(answer.err.find("there is no file or folder r8"), std::string::npos) << answer.err;
  // A folder that is there is meant before a run of its name.
  EXPECT_EQ(run_or_path(posix_file_system(), "/", "tmp"), "tmp");
  EXPECT_EQ(run_or_path(posix_file_system(), runs, "-"), "-");
}

TEST(Program, help_and_version_go_to_stdout) {
  EXPECT_EQ(call({"--version"}).out.rfind("paramedic ", 0), 0u);
  EXPECT_EQ(call({"--help"}).code, 0);
  const Answer help = call({"rules", "list", "--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_EQ(help.out.rfind("usage: paramedic rules list", 0), 0u);
}

TEST(Program, rules_are_listed_and_explained_for_people_and_for_scripts) {
  const Answer list = call({"rules", "list", "--json"});
  const Result<Json> json = parse_json(list.out, "rules list");
  ASSERT_TRUE(json.ok()) << list.out;
  EXPECT_EQ((*json)["rules"].size(), cluster::all_rules().size());
  for (const rules::RuleInfo& rule : cluster::all_rules()) {
    EXPECT_NE(call({"rules", "list"}).out.find(rule.id), std::string::npos);
    const Answer answer = call({"rules", "explain", rule.id});
    EXPECT_EQ(answer.code, 0);
    EXPECT_NE(answer.out.find("what to do"), std::string::npos);
  }
}

}  // namespace
}  // namespace paramedic::cli
