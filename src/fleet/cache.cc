#include "fleet/cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/crc32c.h"
#include "base/embedded_file.h"
#include "base/file.h"
#include "base/lines.h"
#include "base/path.h"
#include "diagnose/text.h"

namespace paramedic::diagnose {
std::span<const EmbeddedFile> signature_files();
}

namespace paramedic::fleet {
namespace {

constexpr size_t kEndBytes = size_t{64} * 1024;
constexpr size_t kKeyChars = 16;
constexpr uint64_t kFileBytesMax = uint64_t{1} << 30U;
// Of the entries themselves: an older program's are not understood.
constexpr int kFormat = 1;

// What the same content would be judged by.
uint64_t knowledge() {
  static const uint64_t digest = [] {
    std::string text = fmt::format("{}", kFormat);
    for (const EmbeddedFile& file : diagnose::signature_files()) {
      text += fmt::format(" {:08x}", crc32c(file.text.data(), file.text.size()));
    }
    return diagnose::stable_hash(text);
  }();
  return digest;
}

uint32_t crc_of(int fd, off_t from, size_t bytes, std::vector<char>& buffer) {
  const ssize_t got = ::pread(fd, buffer.data(), bytes, from);
  return got <= 0 ? 0 : crc32c(buffer.data(), static_cast<size_t>(got));
}

// "" where it cannot be read.
std::string digest_of(const std::string& path, std::vector<char>& buffer) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return "";
  struct stat status{};
  std::string digest;
  if (::fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
    const auto size = static_cast<size_t>(status.st_size);
    digest = fmt::format(" {} {:08x}", size, crc_of(fd, 0, kEndBytes, buffer));
    if (size > kEndBytes) {
      const off_t last = status.st_size - static_cast<off_t>(std::min(size, kEndBytes));
      digest += fmt::format(" {:08x}", crc_of(fd, last, kEndBytes, buffer));
    }
    // What lies between was not looked at.
    if (size > 2 * kEndBytes) digest += fmt::format(" {}", modified_ns(status));
  }
  ::close(fd);
  return digest;
}

}  // namespace

std::string content_key(const JobPath& job) {
  std::vector<char> buffer(kEndBytes);
  std::string text = fmt::format("{:x}", knowledge());
  std::vector<std::string> paths;
  if (job.is_run) paths.push_back(job.path + "/run.json");
  for (const diagnose::Input& log : job.logs) paths.push_back(log.path);
  for (const std::string& path : paths) {
    const std::string digest = digest_of(path, buffer);
    if (digest.empty()) return "";
    text += digest;
  }
  return fmt::format("{:016x}", diagnose::stable_hash(text));
}

Cache::Cache(FileSystem& files, std::string path) : files_(files), path_(std::move(path)) {
  if (path_.empty() || !files_.exists(path_)) return;
  const auto size = files_.size(path_);
  if (!size.ok() || *size > kFileBytesMax) return;
  const auto text = files_.read(path_);
  if (!text.ok()) return;
  std::string_view rest = *text;
  while (!rest.empty() && entries_.size() < kEntriesMax) {
    const std::string_view line = take_line(rest);
    if (line.size() <= kKeyChars || line[kKeyChars] != ' ') continue;
    entries_.emplace(line.substr(0, kKeyChars), line.substr(kKeyChars + 1));
  }
}

const std::string* Cache::find(const std::string& key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second;
}

void Cache::add(const std::string& key, std::string entry) {
  if (path_.empty() || key.empty() || entries_.size() >= kEntriesMax) return;
  entries_[key] = std::move(entry);
  is_changed_ = true;
}

Status Cache::save() {
  if (!std::exchange(is_changed_, false)) return {};
  std::string text;
  for (const auto& [key, entry] : entries_) text += fmt::format("{} {}\n", key, entry);
  PARAMEDIC_TRY(files_.make_folders(std::string(folder_of(path_))));
  return files_.write_atomically(path_, as_bytes(text));
}

std::string default_cache_path(const char* xdg_cache_home, const char* home) {
  constexpr const char* kFile = "/paramedic/fleet.cache";
  if (xdg_cache_home != nullptr && *xdg_cache_home == '/')
    return std::string(xdg_cache_home) + kFile;
  if (home != nullptr && *home == '/') return std::string(home) + "/.cache" + kFile;
  return "";
}

}  // namespace paramedic::fleet
