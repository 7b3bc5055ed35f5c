#pragma once
// Paths as texts. Pure functions; the answers are views into what was given.

#include <string_view>

namespace paramedic {

// The last part: "train.py" of "/job/train.py"; the whole where there is no slash, "" after a
// slash at the end.
inline std::string_view base_name(std::string_view path) {
  return path.substr(path.find_last_of('/') + 1);  // npos + 1 is 0
}

// What holds it: "/job" of "/job/train.py", "/" of "/train.py", "" where there is no slash.
inline std::string_view folder_of(std::string_view path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string_view::npos) return {};
  return path.substr(0, slash == 0 ? 1 : slash);
}

}  // namespace paramedic
