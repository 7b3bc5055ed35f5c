#include "store/file_range.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace paramedic::store {

Result<std::string> read_range(const std::string& path, uint64_t offset, uint64_t bytes_max) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    if (errno == ENOENT) return not_found("there is no file " + path);
    return errno_error("cannot open", path, errno);
  }
  struct stat facts = {};
  ::fstat(fd, &facts);
  const auto size = static_cast<uint64_t>(facts.st_size);
  std::string bytes(offset >= size ? 0 : std::min(bytes_max, size - offset), '\0');
  size_t got = 0;
  int error = 0;
  while (got < bytes.size()) {
    const ssize_t n =
        ::pread(fd, bytes.data() + got, bytes.size() - got, static_cast<off_t>(offset + got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) error = errno;
    if (n <= 0) break;
    got += static_cast<size_t>(n);
  }
  ::close(fd);
  if (error != 0) return errno_error("cannot read", path, error);
  bytes.resize(got);
  return bytes;
}

}  // namespace paramedic::store
