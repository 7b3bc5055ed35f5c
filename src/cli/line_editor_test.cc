// What keys do to a line.

#include "cli/line_editor.h"

#include <gtest/gtest.h>

namespace paramedic::cli {
namespace {

std::vector<std::string> fruits(std::string_view line) {
  const std::string_view begun = line.substr(line.find_last_of(' ') + 1);
  std::vector<std::string> words;
  for (const char* word : {"apple", "apricot", "pear"}) {
    if (std::string_view(word).starts_with(begun)) words.emplace_back(word);
  }
  return words;
}

class EditedLineTest : public testing::Test {
 protected:
  std::string typed(std::string_view bytes) {
    for (const char byte : bytes) last_ = line_.take(byte);
    return line_.text();
  }

  std::deque<std::string> history_ = {"first", "second"};
  const LineInput::Complete complete_ = fruits;
  EditedLine line_{history_, complete_};
  EditedLine::Result last_ = EditedLine::Result::kGoesOn;
};

TEST_F(EditedLineTest, what_is_typed_is_inserted_at_the_cursor) {
  EXPECT_EQ(typed("ac\x1b[Db"), "abc");
  EXPECT_EQ(line_.cursor(), 2U);
  EXPECT_EQ(typed("\x01x\x05y"), "xabcy");
}

TEST_F(EditedLineTest, characters_of_several_bytes_move_and_go_as_one) {
  EXPECT_EQ(typed("größe\x1b[D\x1b[D\x1b[D\x7f"), "göße");
  EXPECT_EQ(typed("\x1b[3~"), "gße");
}

TEST_F(EditedLineTest, erasing_stops_at_the_ends) {
  EXPECT_EQ(typed("a\x7f\x7f\x7f"), "");
  EXPECT_EQ(typed("b\x1b[3~"), "b");
  EXPECT_EQ(typed("\x1b[D\x1b[D\x1b[C\x1b[C\x1b[C"
                  "c"),
            "bc");
}

TEST_F(EditedLineTest, words_and_rests_are_erased_at_once) {
  EXPECT_EQ(typed("one two  \x17"), "one ");
  EXPECT_EQ(typed("more\x01\x1b[C\x0b"), "o");
  EXPECT_EQ(typed("x\x15"), "");
}

TEST_F(EditedLineTest, the_history_gives_back_what_was_typed_before) {
  EXPECT_EQ(typed("new\x1b[A"), "second");
  EXPECT_EQ(typed("\x1b[A\x1b[A\x1b[A"), "first");
  EXPECT_EQ(typed("\x1b[B"), "second");
  EXPECT_EQ(typed("\x1b[B\x1b[B"), "new");
}

TEST_F(EditedLineTest, tab_completes_as_far_as_it_is_clear) {
  EXPECT_EQ(typed("p\t"), "pear ");
  EXPECT_EQ(typed("a\t"), "pear ap");
  EXPECT_TRUE(line_.take_choices().empty());
  EXPECT_EQ(typed("\t"), "pear ap");
  EXPECT_EQ(line_.take_choices(), (std::vector<std::string>{"apple", "apricot"}));
  EXPECT_TRUE(line_.take_choices().empty());
  EXPECT_EQ(typed("r\t"), "pear apricot ");
  EXPECT_EQ(typed("zz\t"), "pear apricot zz");
}

TEST_F(EditedLineTest, the_line_ends_by_return_interrupt_or_end) {
  typed("x\r");
  EXPECT_EQ(last_, EditedLine::Result::kDone);
  typed("\x03");
  EXPECT_EQ(last_, EditedLine::Result::kInterrupted);
  typed("\x04");
  EXPECT_EQ(last_, EditedLine::Result::kGoesOn);  // erases where there is something
  typed("\x15\x04");
  EXPECT_EQ(last_, EditedLine::Result::kEnded);
}

TEST_F(EditedLineTest, unknown_keys_leave_nothing_behind) {
  EXPECT_EQ(typed("a\x1b[15~\x1b[1;5C\x1bOP\x02\x06"
                  "b"),
            "ab");
}

}  // namespace
}  // namespace paramedic::cli
