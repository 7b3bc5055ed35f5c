#pragma once
// For tests: text that a person sees, compared with a file in tests/golden/cli.
// UPDATE_GOLDEN=1 rewrites the files.

#include <string>

namespace paramedic::cli {

void expect_golden(const std::string& name, const std::string& text);
// The same for any file of the repository.
void expect_file(const std::string& path, const std::string& text);

}  // namespace paramedic::cli
