#include "base/utf8.h"

#include <algorithm>
#include <cstddef>

namespace paramedic {
namespace {

struct Range {
  unsigned char low;
  unsigned char high;
};

// Length of the well-formed sequence at the start of `text`, 0 where there is none. Only the
// second byte has a range that depends on the first: it rules out overlong forms, surrogates and
// what lies above U+10FFFF.
size_t sequence_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return 1;
  size_t bytes = 0;
  Range second = {0x80, 0xbf};
  if (first >= 0xc2 && first <= 0xdf) {
    bytes = 2;
  } else if (first >= 0xe0 && first <= 0xef) {
    bytes = 3;
    if (first == 0xe0) second.low = 0xa0;
    if (first == 0xed) second.high = 0x9f;
  } else if (first >= 0xf0 && first <= 0xf4) {
    bytes = 4;
    if (first == 0xf0) second.low = 0x90;
    if (first == 0xf4) second.high = 0x8f;
  }
  if (bytes == 0 || text.size() < bytes) return 0;
  for (size_t i = 1; i < bytes; i++) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const Range range = i == 1 ? second : Range{0x80, 0xbf};
    if (byte < range.low || byte > range.high) return 0;
  }
  return bytes;
}

}  // namespace

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

std::string valid_utf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const size_t bytes = sequence_bytes(text);
    if (bytes == 0) {
      valid += "\xef\xbf\xbd";
      text.remove_prefix(1);
    } else {
      valid += text.substr(0, bytes);
      text.remove_prefix(bytes);
    }
  }
  return valid;
}

}  // namespace paramedic
