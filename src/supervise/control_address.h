#pragma once
// The address of a unix socket in a folder that is open. Paths of run folders are often longer
// than the 108 bytes of sun_path; /proc/self/fd/N/NAME leads to the same file and always fits.

#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <string>

#include "base/status.h"

namespace paramedic::supervise {

class ControlAddress {
 public:
  // `path` of the descriptor itself, such as one opened with O_PATH.
  explicit ControlAddress(int fd) : ControlAddress("/proc/self/fd/" + std::to_string(fd)) {}
  ControlAddress(int folder_fd, const std::string& name)
      : ControlAddress("/proc/self/fd/" + std::to_string(folder_fd) + "/" + name) {}

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
  [[nodiscard]] static socklen_t bytes() { return sizeof(sockaddr_un); }

 private:
  explicit ControlAddress(const std::string& path) {
    PARAMEDIC_CHECK(path.size() < sizeof address_.sun_path);
    address_.sun_family = AF_UNIX;
    std::memcpy(address_.sun_path, path.c_str(), path.size() + 1);
  }

  sockaddr_un address_{};
};

}  // namespace paramedic::supervise
