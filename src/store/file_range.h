#pragma once
// A part of a file, for those who follow files that grow. No state; any thread.

#include <cstdint>
#include <string>

#include "base/status.h"

namespace paramedic::store {

// The bytes from `offset` on, at most `bytes_max` of them; fewer, or none, where the file ends
// before. kNotFound when there is no file.
Result<std::string> read_range(const std::string& path, uint64_t offset, uint64_t bytes_max);

}  // namespace paramedic::store
