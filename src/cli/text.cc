#include "cli/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/lines.h"

namespace paramedic::cli {
namespace {

constexpr size_t kMessageLinesMax = 12;

struct CodePoint {
  char32_t value = 0;
  size_t bytes = 1;
  bool valid = false;
};

// The code point at the start of `text`, which is not empty. Overlong forms and surrogates are
// malformed.
CodePoint decode(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return {first, 1, true};
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return {};
  char32_t value = first & (0x7f >> bytes);
  for (size_t i = 1; i < bytes; i++) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xc0) != 0x80) return {};
    value = value << 6 | (byte & 0x3f);
  }
  const bool overlong = (bytes == 3 && value < 0x800) || (bytes == 4 && value < 0x10000);
  if (overlong || (value >= 0xd800 && value < 0xe000) || value > 0x10ffff) return {};
  return {value, bytes, true};
}

int width_of(char32_t c) {
  if ((c >= 0x300 && c < 0x370) || (c >= 0x200b && c <= 0x200f) || c == 0xfe0f) return 0;
  const bool wide = (c >= 0x1100 && c < 0x1160) || (c >= 0x2e80 && c < 0xa4d0) ||
                    (c >= 0xac00 && c < 0xd7a4) || (c >= 0xf900 && c < 0xfb00) ||
                    (c >= 0xfe30 && c < 0xfe70) || (c >= 0xff00 && c < 0xff61) ||
                    (c >= 0x1f300 && c < 0x1fb00) || (c >= 0x20000 && c < 0x3fffe);
  return wide ? 2 : 1;
}

// Right-to-left overrides reorder what a person reads, so they count as control characters.
bool is_control(char32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x202a && c <= 0x202e) ||
         (c >= 0x2066 && c <= 0x2069) || c == 0x2028 || c == 0x2029;
}

// Bytes of the longest beginning of `text` that fits into `width` columns.
size_t fitting_bytes(std::string_view text, int width) {
  size_t at = 0;
  while (at < text.size()) {
    const CodePoint point = decode(text.substr(at));
    width -= width_of(point.value);
    if (width < 0) break;
    at += point.bytes;
  }
  return at;
}

size_t start_of_last(std::string_view text, int width) {
  size_t at = 0;
  int left = display_width(text);
  while (at < text.size() && left > width) {
    const CodePoint point = decode(text.substr(at));
    left -= width_of(point.value);
    at += point.bytes;
  }
  return at;
}

}  // namespace

std::string clean(std::string_view text) {
  std::string cleaned;
  cleaned.reserve(text.size());
  while (!text.empty()) {
    const CodePoint point = decode(text);
    if (point.value == '\t' && point.valid) {
      cleaned += "    ";
    } else if (!point.valid || is_control(point.value)) {
      cleaned += '?';
    } else {
      cleaned += text.substr(0, point.bytes);
    }
    text.remove_prefix(point.bytes);
  }
  return cleaned;
}

int display_width(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    const CodePoint point = decode(text);
    width += width_of(point.value);
    text.remove_prefix(point.bytes);
  }
  return width;
}

std::string cut(std::string_view text, int width) {
  if (display_width(text) <= width) return std::string(text);
  if (width <= 0) return "";
  return std::string(text.substr(0, fitting_bytes(text, width - 1))) + "…";
}

std::string cut_middle(std::string_view text, int width) {
  if (display_width(text) <= width) return std::string(text);
  if (width <= 2) return cut(text, width);
  const int tail = (width - 1) / 2;
  return std::string(text.substr(0, fitting_bytes(text, width - 1 - tail))) + "…" +
         std::string(text.substr(start_of_last(text, tail)));
}

std::string pad(std::string_view text, int width) {
  return std::string(text) + std::string(std::max(0, width - display_width(text)), ' ');
}

std::string pad_left(std::string_view text, int width) {
  return std::string(std::max(0, width - display_width(text)), ' ') + std::string(text);
}

std::vector<std::string> wrap(std::string_view text, int width) {
  width = std::max(width, 1);
  std::vector<std::string> lines;
  std::string line;
  while (!text.empty()) {
    const size_t space = std::min(text.find(' '), text.size());
    std::string_view word = text.substr(0, space);
    text.remove_prefix(std::min(space + 1, text.size()));
    if (word.empty()) continue;
    if (!line.empty() && display_width(line) + 1 + display_width(word) > width) {
      lines.push_back(std::move(line));
      line.clear();
    }
    while (line.empty() && display_width(word) > width) {
      const size_t bytes = std::max<size_t>(fitting_bytes(word, width), decode(word).bytes);
      lines.emplace_back(word.substr(0, bytes));
      word.remove_prefix(bytes);
    }
    if (!line.empty() && !word.empty()) line += ' ';
    line += word;
  }
  if (!line.empty()) lines.push_back(std::move(line));
  return lines;
}

std::vector<std::string> message_lines(std::string_view message, int width) {
  std::vector<std::string> lines;
  while (!message.empty() && lines.size() < kMessageLinesMax) {
    for (std::string& line : wrap(clean(take_line(message)), width)) {
      if (lines.size() < kMessageLinesMax) lines.push_back(std::move(line));
    }
  }
  return lines;
}

std::string utf8(char32_t c) {
  std::string text;
  const auto add = [&text](char32_t byte) { text += static_cast<char>(byte); };
  if (c < 0x80) {
    add(c);
  } else if (c < 0x800) {
    add(0xc0 | c >> 6);
    add(0x80 | (c & 0x3f));
  } else {
    add(0xe0 | c >> 12);
    add(0x80 | (c >> 6 & 0x3f));
    add(0x80 | (c & 0x3f));
  }
  return text;
}

std::string with_commas(uint64_t number) {
  std::string digits = std::to_string(number);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) digits.insert(at, ",");
  return digits;
}

std::string counted(uint64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", with_commas(number), noun, number == 1 ? "" : "s");
}

std::string short_number(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "+Inf" : "-Inf";
  const std::string text = fmt::format("{:.4g}", number);
  const double magnitude = std::abs(number);
  // An exponent takes room, so that the digits it leaves are fewer.
  return magnitude != 0 && (magnitude < 1e-4 || magnitude >= 1e5) ? fmt::format("{:.2g}", number)
                                                                  : text;
}

std::string duration(double seconds) {
  if (!(seconds >= 0)) return "?";
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", seconds * 1000);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(std::min(seconds, 1e15)));
  if (whole < 3600) return fmt::format("{} min {:02d} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02d} min", whole / 3600, whole / 60 % 60);
}

std::string Paint::operator()(Style style, std::string_view text) const {
  if (!color_ || text.empty()) return std::string(text);
  const char* code = "";
  switch (style) {
    case Style::kBold:
      code = "1";
      break;
    case Style::kDim:
      code = "2";
      break;
    case Style::kError:
      code = "1;31";
      break;
    case Style::kWarning:
      code = "1;33";
      break;
    case Style::kInfo:
      code = "1;34";
      break;
    case Style::kGood:
      code = "1;32";
      break;
    case Style::kAccent:
      code = "36";
      break;
  }
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

}  // namespace paramedic::cli
