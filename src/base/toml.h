#pragma once
// `paramedic.toml` through toml++, its exceptions turned into Status, as the same Json value that
// the rest of the program works with.

#include <string_view>

#include "base/json.h"

namespace paramedic {

// An error names `what`, the line and the column.
Result<Json> parse_toml(std::string_view text, std::string_view what);

}  // namespace paramedic
