#include "cli/places.h"

#include <fmt/format.h>

#include <charconv>

#include "cli/text.h"

namespace paramedic::cli {

Result<std::pair<std::string, int32_t>> parse_place(const std::string& text) {
  const size_t colon = text.find_last_of(':');
  int32_t line = 0;
  if (colon != std::string::npos && colon > 0) {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, line);
    if (error == std::errc{} && stop == end && line > 0) {
      return std::pair(text.substr(0, colon), line);
    }
  }
  return invalid_argument(fmt::format("'{}' is no place in a file", clean(text)),
                          "such as train.py:31");
}

}  // namespace paramedic::cli
