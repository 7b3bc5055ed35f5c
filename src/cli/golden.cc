#include "cli/golden.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"

namespace paramedic::cli {

void expect_golden(const std::string& name, const std::string& text) {
  expect_file("tests/golden/cli/" + name, text);
}

void expect_file(const std::string& path, const std::string& text) {
  const std::string full = std::string(PARAMEDIC_SOURCE_DIR) + "/" + path;
  FileSystem& files = posix_file_system();
  if (std::getenv("UPDATE_GOLDEN") != nullptr) {
    const Status status = files.write_atomically(full, as_bytes(text));
    ASSERT_TRUE(status.ok()) << status.to_string();
    return;
  }
  const Result<std::string> expected = files.read(full);
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();
  EXPECT_EQ(*expected, text) << path << " differs; UPDATE_GOLDEN=1 rewrites it";
}

}  // namespace paramedic::cli
