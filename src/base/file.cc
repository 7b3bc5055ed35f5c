#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/path.h"

namespace paramedic {
namespace {

// Room that is made at once for what a file says it holds; more of it comes as it is read.
constexpr size_t kReserveMax = 64 << 20;

class UniqueFd {
 public:
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

Status write_all(int fd, const std::string& path, Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return errno_error("cannot write", path, errno);
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

class PosixWritableFile : public WritableFile {
 public:
  PosixWritableFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  ~PosixWritableFile() override {
    if (fd_ >= 0) ::close(fd_);
  }

  Status append(Bytes bytes) override { return write_all(fd_, path_, bytes); }
  Status sync() override {
    if (::fdatasync(fd_) != 0) return errno_error("cannot sync", path_, errno);
    return {};
  }
  Status close() override {
    if (::close(std::exchange(fd_, -1)) != 0) return errno_error("cannot close", path_, errno);
    return {};
  }

 private:
  int fd_;
  std::string path_;
};

class PosixFileSystem : public FileSystem {
 public:
  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
    return open_for_writing(path, O_CREAT | O_EXCL, "cannot create");
  }
  Result<std::unique_ptr<WritableFile>> reopen(const std::string& path) override {
    return open_for_writing(path, 0, "cannot open");
  }

  Result<std::string> read(const std::string& path) override {
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (fd.get() < 0) return errno_error("cannot open", path, errno);
    std::string text;
    struct stat status{};
    if (::fstat(fd.get(), &status) == 0 && status.st_size > 0) {
      text.reserve(std::min(static_cast<size_t>(status.st_size), kReserveMax));
    }
    char buffer[1 << 16];
    while (true) {
      const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
      if (got == 0) return text;
      if (got < 0) {
        if (errno == EINTR) continue;
        return errno_error("cannot read", path, errno);
      }
      text.append(buffer, static_cast<size_t>(got));
    }
  }

  Status write_atomically(const std::string& path, Bytes bytes) override {
    const std::string temporary = path + ".tmp." + std::to_string(::getpid());
    UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (fd.get() < 0) return errno_error("cannot create", temporary, errno);
    Status status = write_all(fd.get(), temporary, bytes);
    if (status.ok() && ::fdatasync(fd.get()) != 0) {
      status = errno_error("cannot sync", temporary, errno);
    }
    if (status.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) {
      status = errno_error("cannot rename to", path, errno);
    }
    if (!status.ok()) ::unlink(temporary.c_str());
    return status;
  }

  Status truncate(const std::string& path, uint64_t bytes) override {
    if (::truncate(path.c_str(), static_cast<off_t>(bytes)) != 0) {
      return errno_error("cannot truncate", path, errno);
    }
    return {};
  }

  Status remove(const std::string& path) override {
    if (::unlink(path.c_str()) != 0) return errno_error("cannot remove", path, errno);
    return {};
  }

  Status make_folders(const std::string& path) override {
    if (path.empty() || exists_as_folder(path)) return {};
    PARAMEDIC_TRY(make_folders(std::string(folder_of(path))));
    if (::mkdir(path.c_str(), 0700) != 0 && (errno != EEXIST || !exists_as_folder(path))) {
      return errno_error("cannot create the folder", path, errno);
    }
    return {};
  }

  Result<std::vector<std::string>> list(const std::string& path) override {
    DIR* folder = ::opendir(path.c_str());
    if (folder == nullptr) return errno_error("cannot list", path, errno);
    std::vector<std::string> names;
    while (const dirent* entry = ::readdir(folder)) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    ::closedir(folder);
    std::sort(names.begin(), names.end());
    return names;
  }

  Result<uint64_t> size(const std::string& path) override {
    struct stat info{};
    if (::stat(path.c_str(), &info) != 0) return errno_error("cannot look at", path, errno);
    return static_cast<uint64_t>(info.st_size);
  }

  bool exists(const std::string& path) override { return ::access(path.c_str(), F_OK) == 0; }

 private:
  static bool exists_as_folder(const std::string& path) {
    struct stat info{};
    return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  }

  static Result<std::unique_ptr<WritableFile>> open_for_writing(const std::string& path, int flags,
                                                                const char* what) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | flags, 0600);
    if (fd < 0) return errno_error(what, path, errno);
    return std::unique_ptr<WritableFile>(std::make_unique<PosixWritableFile>(fd, path));
  }
};

}  // namespace

FileSystem& posix_file_system() {
  static PosixFileSystem file_system;
  return file_system;
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return errno_error("cannot open", path, errno);
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return errno_error("cannot look at", path, errno);
  const auto bytes = static_cast<size_t>(info.st_size);
  if (bytes == 0) return MappedFile(nullptr, 0);
  void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) return errno_error("cannot map", path, errno);
  return MappedFile(static_cast<const std::byte*>(data), bytes);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), bytes_);
}

}  // namespace paramedic
