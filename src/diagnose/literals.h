#pragma once
// What a text must hold for a regular expression to be worth a look, read off the expression
// itself: to compile hundreds of them takes longer than to read a small log. Pure functions.

#include <string>
#include <string_view>
#include <vector>

namespace paramedic::diagnose {

// One of the alternatives of an expression ("a|b" has two), with the flags that hold for it.
struct Alternative {
  std::string expression;
  // One of them stands, folded, in whatever the alternative matches; none: nothing is known.
  std::vector<std::string> literals;
};

// Whatever is matched by one of them is matched by the expression, and the other way round. Of
// syntax that is not understood nothing is known; nothing is checked here.
std::vector<Alternative> alternatives_of(std::string_view expression);

// `text` with everything that (?i) takes for a small ASCII letter in its place.
std::string folded(std::string_view text);

// Shorter ones stand in most texts.
inline constexpr size_t kLiteralBytesMin = 3;

}  // namespace paramedic::diagnose
