#include "base/fault_file.h"

#include <algorithm>
#include <cerrno>

namespace paramedic {

class FaultWritableFile : public WritableFile {
 public:
  FaultWritableFile(FaultFileSystem& owner, std::string path)
      : owner_(owner), path_(std::move(path)) {}

  Status append(Bytes bytes) override { return owner_.append(path_, bytes); }
  Status sync() override {
    auto found = owner_.files_.find(path_);
    if (found == owner_.files_.end()) return errno_error("cannot sync", path_, ENOENT);
    found->second.synced = found->second.bytes.size();
    return {};
  }
  Status close() override { return {}; }

 private:
  FaultFileSystem& owner_;
  std::string path_;
};

Result<std::unique_ptr<WritableFile>> FaultFileSystem::create(const std::string& path) {
  if (exists(path)) return errno_error("cannot create", path, EEXIST);
  if (space_left_ == 0) return errno_error("cannot create", path, ENOSPC);
  files_[path] = {};
  return reopen(path);
}

Result<std::unique_ptr<WritableFile>> FaultFileSystem::reopen(const std::string& path) {
  if (!files_.contains(path)) return errno_error("cannot open", path, ENOENT);
  return std::unique_ptr<WritableFile>(std::make_unique<FaultWritableFile>(*this, path));
}

Result<std::string> FaultFileSystem::read(const std::string& path) {
  auto found = files_.find(path);
  if (found == files_.end()) return errno_error("cannot open", path, ENOENT);
  return found->second.bytes;
}

Status FaultFileSystem::write_atomically(const std::string& path, Bytes bytes) {
  const std::string temporary = path + ".tmp";
  files_[temporary] = {};
  if (Status status = append(temporary, bytes); !status.ok()) {
    files_.erase(temporary);
    return status;
  }
  Content content = std::move(files_[temporary]);
  content.synced = content.bytes.size();
  files_.erase(temporary);
  files_[path] = std::move(content);
  return {};
}

Status FaultFileSystem::truncate(const std::string& path, uint64_t bytes) {
  auto found = files_.find(path);
  if (found == files_.end()) return errno_error("cannot truncate", path, ENOENT);
  found->second.bytes.resize(bytes);
  found->second.synced = std::min<uint64_t>(found->second.synced, bytes);
  return {};
}

Status FaultFileSystem::remove(const std::string& path) {
  if (files_.erase(path) == 0) return errno_error("cannot remove", path, ENOENT);
  return {};
}

Status FaultFileSystem::make_folders(const std::string& path) {
  folders_.insert(path);
  return {};
}

Result<std::vector<std::string>> FaultFileSystem::list(const std::string& path) {
  const std::string prefix = path + "/";
  std::set<std::string> names;
  const auto add = [&](const std::string& file) {
    if (file.starts_with(prefix)) {
      names.insert(file.substr(prefix.size(), file.find('/', prefix.size()) - prefix.size()));
    }
  };
  for (const auto& [file, content] : files_) add(file);
  for (const std::string& folder : folders_) add(folder);
  if (names.empty() && !folders_.contains(path)) return errno_error("cannot list", path, ENOENT);
  return std::vector<std::string>(names.begin(), names.end());
}

Result<uint64_t> FaultFileSystem::size(const std::string& path) {
  auto found = files_.find(path);
  if (found == files_.end()) return errno_error("cannot look at", path, ENOENT);
  return found->second.bytes.size();
}

bool FaultFileSystem::exists(const std::string& path) {
  return files_.contains(path) || folders_.contains(path);
}

void FaultFileSystem::lose_unsynced(uint64_t kept) {
  for (auto& [path, content] : files_) {
    const uint64_t left = std::min<uint64_t>(content.bytes.size(), content.synced + kept);
    content.bytes.resize(left);
    content.synced = left;
  }
}

Status FaultFileSystem::append(const std::string& path, Bytes bytes) {
  if (!failing_.empty() && path.find(failing_) != std::string::npos) {
    return errno_error("cannot write", path, EIO);
  }
  auto found = files_.find(path);
  if (found == files_.end()) return errno_error("cannot write", path, ENOENT);
  const size_t fits = std::min<uint64_t>(bytes.size(), space_left_);
  found->second.bytes.append(reinterpret_cast<const char*>(bytes.data()), fits);
  space_left_ -= fits;
  if (fits < bytes.size()) return errno_error("cannot write", path, ENOSPC);
  return {};
}

}  // namespace paramedic
