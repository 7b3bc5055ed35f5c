#pragma once
// The seam to the file system: everything that writes a run folder goes through `FileSystem`, so
// that tests can put `FaultFileSystem` (fault_file.h) in its place and drop unsynced bytes, cut
// writes short, or fill the disk.
//
// A FileSystem may be used by several threads; one WritableFile by one thread at a time.

#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace paramedic {

using Bytes = std::span<const std::byte>;

inline Bytes as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// When the file was last written, on the clock of its file system.
inline int64_t modified_ns(const struct stat& facts) {
  return int64_t{facts.st_mtim.tv_sec} * 1'000'000'000 + facts.st_mtim.tv_nsec;
}

// Append-only. Bytes given to `append` survive the death of the process once it returned ok, and
// the loss of power once `sync` did.
class WritableFile {
 public:
  WritableFile() = default;
  WritableFile(const WritableFile&) = delete;
  WritableFile& operator=(const WritableFile&) = delete;
  virtual ~WritableFile() = default;

  // All of `bytes` or an error; after an error some prefix of them may stand in the file.
  virtual Status append(Bytes bytes) = 0;
  virtual Status sync() = 0;
  // Further calls are errors. The destructor closes too, but cannot report.
  virtual Status close() = 0;
};

class FileSystem {
 public:
  FileSystem() = default;
  FileSystem(const FileSystem&) = delete;
  FileSystem& operator=(const FileSystem&) = delete;
  virtual ~FileSystem() = default;

  // A new file, mode 0600; an error when it exists: nothing is ever overwritten unasked.
  virtual Result<std::unique_ptr<WritableFile>> create(const std::string& path) = 0;
  // Opens for appending, keeping what is there; the file must exist.
  virtual Result<std::unique_ptr<WritableFile>> reopen(const std::string& path) = 0;
  virtual Result<std::string> read(const std::string& path) = 0;
  // Writes a temporary file beside `path`, syncs it and renames it over `path`.
  virtual Status write_atomically(const std::string& path, Bytes bytes) = 0;
  virtual Status truncate(const std::string& path, uint64_t bytes) = 0;
  virtual Status remove(const std::string& path) = 0;
  // Creates `path` and its missing parents, mode 0700; fine when it exists as a folder.
  virtual Status make_folders(const std::string& path) = 0;
  // Names (not paths) in `path`, sorted.
  virtual Result<std::vector<std::string>> list(const std::string& path) = 0;
  virtual Result<uint64_t> size(const std::string& path) = 0;
  virtual bool exists(const std::string& path) = 0;
};

// The real one; lives for the whole program.
FileSystem& posix_file_system();

// A file mapped for reading. Movable; unmaps on destruction. Bytes stay valid until then, unless
// somebody truncates the file (segments are only ever cut by `Run::adopt`, which holds the lock).
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  [[nodiscard]] Bytes bytes() const { return {data_, bytes_}; }

 private:
  MappedFile(const std::byte* data, size_t bytes) : data_(data), bytes_(bytes) {}
  const std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace paramedic
