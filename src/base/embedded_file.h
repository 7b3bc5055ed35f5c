#pragma once
// A data file of the checkout that is part of the program (cmake/embed_data.cmake), so that the
// program is one file and never meets a missing or foreign version of its own tables.

#include <string_view>

namespace paramedic {

struct EmbeddedFile {
  std::string_view name;  // without the folder: "memory.toml"
  std::string_view text;
};

}  // namespace paramedic
