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
  EXPECT_EQ(reader.history(0), "step 1\nstep 2\n");
  EXPECT_EQ(reader.history(7), "step 2\n");
}

// Gives `bytes` at a time, as a pipe may.
class Drops : public ByteSource {
 public:
  Drops(std::string text, size_t bytes) : text_(std::move(text)), bytes_(bytes) {}
  Result<size_t> read(std::span<char> to) override {
    const size_t bytes = std::min({to.size(), bytes_, text_.size() - at_});
    std::copy_n(text_.begin() + static_cast<ptrdiff_t>(at_), bytes, to.begin());
    at_ += bytes;
    return bytes;
  }

 private:
  std::string text_;
  size_t bytes_;
  size_t at_ = 0;
};

TEST(Lines, CandidatesAreTheSameHoweverTheBytesCome) {
  // GIVEN lines, some with a literal, some very long, ended in all ways
  std::mt19937 random(20261130);
  const Gate gate = error_gate();
  std::string text;
  while (text.size() < 400'000) {
    const bool is_long = random() % 50 == 0;
    text += std::string(random() % (is_long ? 40'000 : 90), 'x');
    if (random() % 3 == 0) text += "ERROR";
    text += std::string(random() % 20, 'y') + (random() % 4 == 0 ? "\r" : "\n");
  }
  const auto candidates = [&](size_t bytes) {
    Drops source(text, bytes);
    LineReader reader(source, gate);
    std::vector<std::pair<uint64_t, uint64_t>> found;
    RawLine line;
    while (reader.next_candidate(line).value()) {
      // Of a line that is longer than what is given of one, which part is given may differ.
      const size_t before = text.find_last_of("\r\n", line.offset);
      const size_t begin = before == std::string::npos ? 0 : before + 1;
      const size_t end = text.find_first_of("\r\n", line.offset);
      found.emplace_back(line.number, end - begin < LineReader::kLineMax ? line.offset : 0);
    }
    return found;
  };
  // WHEN they come in drops THEN the candidates are those of one read
  const auto whole = candidates(text.size());
  ASSERT_GT(whole.size(), 100U);
  EXPECT_EQ(candidates(7), whole);
  EXPECT_EQ(candidates(4096), whole);
  EXPECT_EQ(candidates(100'003), whole);
}

}  // namespace
}  // namespace paramedic::diagnose
