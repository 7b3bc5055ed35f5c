#pragma once
// Texts line by line. Pure functions; the answers are views into what was given.

#include <algorithm>
#include <string_view>

namespace paramedic {

// Up to the first end of a line; the whole where there is none.
inline std::string_view first_line(std::string_view text) {
  return text.substr(0, text.find('\n'));
}

// The first line, which `text` is left without. A text that ends with its last line's end has no
// empty line after it.
inline std::string_view take_line(std::string_view& text) {
  const std::string_view line = first_line(text);
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

}  // namespace paramedic
