#pragma once
// A run's `failure` (a verdict of contract.md) in words. Pure; whatever is missing is "".

#include <string>

#include "base/json.h"

namespace paramedic::cli {

// The exception's type, else the verdict's title.
std::string exception_of(const Json& failure);
std::string failure_message(const Json& failure);
// "path_not_found: a file or folder does not exist"; "" where nothing was judged.
std::string cause_of(const Json& failure);
// "never: the same would happen again"
std::string retry_of(const Json& failure);
// All on one line, for the end of a run.
std::string failure_line(const Json& failure);

}  // namespace paramedic::cli
