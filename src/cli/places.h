#pragma once
// Places in source files as a person writes them.

#include <cstdint>
#include <string>
#include <utility>

#include "base/status.h"

namespace paramedic::cli {

// "train.py:31": file and line.
Result<std::pair<std::string, int32_t>> parse_place(const std::string& text);

}  // namespace paramedic::cli
