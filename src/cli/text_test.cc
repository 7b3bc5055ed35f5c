#include "cli/text.h"

#include <gtest/gtest.h>

#include <cmath>

namespace paramedic::cli {
namespace {

TEST(Text, clean_leaves_nothing_that_steers_a_terminal) {
  EXPECT_EQ(clean("a\x1b[31mb\r\n\tc"), "a?[31mb??    c");
  EXPECT_EQ(clean("caf\xc3\xa9 \xe2\x80\xae"), "café ?");
  EXPECT_EQ(clean("\xff\xc3"), "??");
  EXPECT_EQ(clean("\xed\xa0\x80"), "???");  // a surrogate
  EXPECT_EQ(clean("\xc0\xaf"), "??");       // an overlong slash
  EXPECT_EQ(clean("\xc2\x9b"), "?");        // CSI as one character
}

TEST(Text, width_counts_columns_not_bytes) {
  EXPECT_EQ(display_width("naïve"), 5);
  EXPECT_EQ(display_width("日本"), 4);
  EXPECT_EQ(display_width("e\xcc\x81"), 1);
}

TEST(Text, cutting_keeps_to_the_width) {
  EXPECT_EQ(cut("abcdef", 6), "abcdef");
  EXPECT_EQ(cut("abcdef", 4), "abc…");
  EXPECT_EQ(cut_middle("encoder.layer.11.weight", 13), "encode…weight");
  EXPECT_LE(display_width(cut_middle("日本語日本語日本語", 7)), 7);
  EXPECT_EQ(cut("abc", 0), "");
}

TEST(Text, wrap_breaks_at_spaces_and_long_words) {
  EXPECT_EQ(wrap("one two three", 7), (std::vector<std::string>{"one two", "three"}));
  EXPECT_EQ(wrap("abcdefgh ij", 3), (std::vector<std::string>{"abc", "def", "gh", "ij"}));
  EXPECT_TRUE(wrap("", 10).empty());
  EXPECT_EQ(wrap("日本", 1).size(), 2u);  // wider than the width, and still it ends
}

TEST(Text, numbers_are_short_and_say_what_they_are) {
  EXPECT_EQ(short_number(0), "0");
  EXPECT_EQ(short_number(0.021341), "0.02134");
  EXPECT_EQ(short_number(3.14e-9), "3.1e-09");
  EXPECT_EQ(short_number(1234567), "1.2e+06");
  EXPECT_EQ(short_number(std::nan("")), "NaN");
  EXPECT_EQ(short_number(-INFINITY), "-Inf");
  EXPECT_EQ(with_commas(1234567), "1,234,567");
  EXPECT_EQ(with_commas(123), "123");
  EXPECT_EQ(counted(1, "step"), "1 step");
  EXPECT_EQ(counted(2000, "step"), "2,000 steps");
}

TEST(Text, durations_round_into_the_unit_that_fits) {
  EXPECT_EQ(duration(0.8504), "850 ms");
  EXPECT_EQ(duration(12.34), "12.3 s");
  EXPECT_EQ(duration(59.97), "1 min 00 s");
  EXPECT_EQ(duration(245), "4 min 05 s");
  EXPECT_EQ(duration(11520), "3 h 12 min");
  EXPECT_EQ(duration(std::nan("")), "?");
}

TEST(Text, paint_without_colour_changes_nothing) {
  EXPECT_EQ(Paint(false)(Style::kError, "x"), "x");
  EXPECT_EQ(Paint(true)(Style::kError, "x"), "\x1b[1;31mx\x1b[0m");
}

}  // namespace
}  // namespace paramedic::cli
