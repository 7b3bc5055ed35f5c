#pragma once
// The fault-injecting twin of the POSIX file layer, for tests: an in-memory file system that can
// forget what was not synced (power loss), cut writes short, and answer ENOSPC or EIO on demand.
// Not thread-safe.

#include <map>
#include <set>

#include "base/file.h"

namespace paramedic {

class FaultFileSystem : public FileSystem {
 public:
  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override;
  Result<std::unique_ptr<WritableFile>> reopen(const std::string& path) override;
  Result<std::string> read(const std::string& path) override;
  Status write_atomically(const std::string& path, Bytes bytes) override;
  Status truncate(const std::string& path, uint64_t bytes) override;
  Status remove(const std::string& path) override;
  Status make_folders(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& path) override;
  Result<uint64_t> size(const std::string& path) override;
  bool exists(const std::string& path) override;

  // From now on at most `bytes` more bytes can be written in all; the write that crosses the limit
  // is cut short there and answers ENOSPC, as a full disk does.
  void set_space_left(uint64_t bytes) { space_left_ = bytes; }
  // Every append to a path that contains `part` fails with EIO until cleared with "".
  void fail_writes_to(std::string part) { failing_ = std::move(part); }
  // What a loss of power leaves: each file keeps its synced bytes and the first `kept` of the rest.
  void lose_unsynced(uint64_t kept = 0);

 private:
  friend class FaultWritableFile;
  struct Content {
    std::string bytes;
    uint64_t synced = 0;
  };
  Status append(const std::string& path, Bytes bytes);

  std::map<std::string, Content> files_;
  std::set<std::string> folders_;
  uint64_t space_left_ = UINT64_MAX;
  std::string failing_;
};

}  // namespace paramedic
