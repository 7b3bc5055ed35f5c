// tests/diagnose/excerpts: what users see, in our own words, with what the verdict has to say.

#include <gtest/gtest.h>

#include <filesystem>

#include "base/test_folder.h"
#include "base/toml.h"
#include "diagnose/diagnose.h"

namespace paramedic::diagnose {
namespace {

TEST(Excerpts, EachIsJudgedAsItsCaseSays) {
  int cases = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(PARAMEDIC_SOURCE_DIR "/tests/diagnose/excerpts")) {
    const Result<Json> document = parse_toml(read_file(entry.path()), entry.path().string());
    ASSERT_TRUE(document.ok()) << document.status().message();
    for (const Json& one : (*document)["case"]) {
      ++cases;
      const std::string text = one["text"];
      const Verdict verdict = diagnose_text("job.log", text).verdict;
      EXPECT_EQ(name(verdict.category), one["category"].get<std::string>())
          << verdict.mechanism << "\n"
          << text;
      if (one.contains("retry")) {
        EXPECT_EQ(name(verdict.retry), one["retry"].get<std::string>()) << text;
      }
      if (one.contains("stage")) {
        EXPECT_EQ(name(verdict.stage), one["stage"].get<std::string>()) << text;
      }
      if (one.contains("first_failing_rank")) {
        EXPECT_EQ(verdict.first_failing_rank, one["first_failing_rank"].get<int>()) << text;
      }
    }
  }
  EXPECT_GE(cases, 60);
}

}  // namespace
}  // namespace paramedic::diagnose
