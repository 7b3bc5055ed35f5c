#pragma once
// Text for a terminal: widths of UTF-8, wrapping, cutting, colours, numbers. Pure functions.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paramedic::cli {

// `text` with tabs as spaces, and every control character and malformed byte as '?': names and
// source lines come from files that nobody vouches for, and must not steer the terminal.
std::string clean(std::string_view text);

// Columns that clean text takes: 0 for combining marks, 2 for wide characters.
int display_width(std::string_view text);

// Cut to `width` columns, with … in place of what was cut.
std::string cut(std::string_view text, int width);
// Cut in the middle instead, for names whose ends tell the most.
std::string cut_middle(std::string_view text, int width);
// Padded with spaces to `width` columns on the right, or on the left.
std::string pad(std::string_view text, int width);
std::string pad_left(std::string_view text, int width);

// Lines of at most `width` columns, broken at spaces (a longer word is broken where it must be).
std::vector<std::string> wrap(std::string_view text, int width);

// What an exception says, line by line, each cleaned and wrapped; a dozen lines say enough.
std::vector<std::string> message_lines(std::string_view message, int width);

// A code point as UTF-8.
std::string utf8(char32_t code_point);

// "1,234,567"
std::string with_commas(uint64_t number);
// "3 steps", "1 step"
std::string counted(uint64_t number, std::string_view noun);
// Four significant digits, no padding: "0.02134", "3.1e-09", "NaN", "+Inf".
std::string short_number(double number);
// "850 ms", "12.3 s", "4 min 05 s", "3 h 12 min"
std::string duration(double seconds);

// What a style means is decided here only; `Paint` without colour leaves text as it is.
enum class Style : uint8_t { kBold, kDim, kError, kWarning, kInfo, kGood, kAccent };
class Paint {
 public:
  explicit Paint(bool color) : color_(color) {}
  [[nodiscard]] bool color() const { return color_; }
  [[nodiscard]] std::string operator()(Style style, std::string_view text) const;

 private:
  bool color_;
};

}  // namespace paramedic::cli
