#pragma once
// For tests only: a folder of their own that goes away again, and files read and written in one
// call, which end the program when that fails.

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "base/status.h"

namespace paramedic {

inline std::string read_file(const std::string& path) {
  const std::ifstream file(path, std::ios::binary);
  PARAMEDIC_CHECK(file.is_open());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Makes the folders above it.
inline void write_file(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  PARAMEDIC_CHECK(file.flush().good());
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    // In memory where there is such a folder: what syncs its files takes a disk milliseconds.
    const std::string parent = ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    path_ = parent + "/paramedic-test-XXXXXX";
    PARAMEDIC_CHECK(::mkdtemp(path_.data()) != nullptr);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace paramedic
