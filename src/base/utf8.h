#pragma once
// Names come from users' programs and may hold any bytes; Arrow's utf8 columns and JSON may not.
// Thread-safe.

#include <string>
#include <string_view>

namespace paramedic {

bool is_ascii(std::string_view text);

// `text` with every byte that is not part of well-formed UTF-8 (Unicode 15, table 3-7) replaced by
// U+FFFD. Well-formed text comes back as it is.
std::string valid_utf8(std::string_view text);

}  // namespace paramedic
