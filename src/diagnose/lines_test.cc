#include "diagnose/lines.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace paramedic::diagnose {
namespace {

Gate error_gate() { return Gate({"ERROR", "Traceback"}); }

struct Given {
  std::string text;
  uint64_t number;
  uint64_t offset;
};

std::vector<Given> read(const std::string& text, bool candidates) {
  const Gate gate = error_gate();
  const auto source = text_source(text);
  LineReader reader(*source, gate);
  std::vector<Given> lines;
  RawLine line;
  for (;;) {
    const Result<bool> more = candidates ? reader.next_candidate(line) : reader.next(line);
    EXPECT_TRUE(more.ok());
    if (!more.ok() || !*more) break;
    lines.push_back({std::string(line.text), line.number, line.offset});
  }
  return lines;
}

TEST(Lines, AreNumberedAsInAnEditorWhateverEndsThem) {
  const auto lines = read("one\r\ntwo\n\nbar 1\rbar 2\rbar 3\nlast", false);
  ASSERT_EQ(lines.size(), 6U);
  EXPECT_EQ(lines[0].text, "one");
  EXPECT_EQ(lines[1].number, 2U);
  EXPECT_EQ(lines[2].text, "bar 1");
  EXPECT_EQ(lines[4].number, 4U);
  EXPECT_EQ(lines[5].number, 5U);
  EXPECT_EQ(lines[5].text, "last");
}

TEST(Lines, ACandidateIsGivenWholeWithItsNumberAndOffset) {
  std::string text;
  for (int i = 1; i <= 40000; ++i) text += "step " + std::to_string(i) + " loss 0.123456789\n";
  const size_t before = text.size();
  text += "rank 3 ERROR here\n";
  for (int i = 1; i <= 40000; ++i) text += "step " + std::to_string(i) + " loss 0.123456789\n";
  text += "and one ERROR without an end";
  const auto lines = read(text, true);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].text, "rank 3 ERROR here");
  EXPECT_EQ(lines[0].number, 40001U);
  EXPECT_EQ(lines[0].offset, before);
  EXPECT_EQ(lines[1].number, 80002U);
}

TEST(Lines, OfALineLongerThanTheBufferTheFrontIsGivenAndNothingIsLostBehindIt) {
  const std::string text = std::string(5 << 20, 'x') + "\nERROR after it\n";
  const auto lines = read(text, true);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].text, "ERROR after it");
  EXPECT_EQ(lines[0].number, 2U);
}

TEST(Lines, TheGateFindsWhatAPlainSearchFinds) {
  // GIVEN random text over few letters, so that literals and near misses are frequent
  std::mt19937 random(20260801);
  const std::vector<std::string> literals = {"abca", "bbbbb", "acabab", "cccc"};
  const Gate gate(literals);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (size_t i = random() % 400; i > 0; --i) text += static_cast<char>('a' + random() % 3);
    // WHEN searched from every place
    for (size_t from = 0; from <= text.size(); from += 1 + random() % 7) {
      size_t expected = std::string::npos;
      for (const std::string& literal : literals) {
        expected = std::min(expected, text.find(literal, from));
      }
      // THEN the answers are the same
      ASSERT_EQ(gate.find(text, from), expected) << text << " from " << from;
    }
  }
}

TEST(Lines, HistoryIsWhatStoodBefore) {
  const Gate gate = error_gate();
  const auto source = text_source("step 1\nstep 2\nERROR x\n");
  LineReader reader(*source, gate);
  RawLine line;
  ASSERT_TRUE(reader.next_candidate(line).value());
  EXPECT_EQ(reader.history(), "step 1\nstep 2\n");
}

}  // namespace
}  // namespace paramedic::diagnose
