#include "supervise/fd.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace paramedic::supervise {

void Fd::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Result<FdPair> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return errno_error("cannot make", "a pipe", errno);
  return FdPair{Fd(ends[0]), Fd(ends[1])};
}

Result<FdPair> make_socket_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return errno_error("cannot make", "a socket pair", errno);
  }
  return FdPair{Fd(ends[0]), Fd(ends[1])};
}

Status set_nonblocking(int fd) {
  int on = 1;
  if (::ioctl(fd, FIONBIO, &on) != 0) {
    return errno_error("cannot set up", "a pipe", errno);
  }
  return {};
}

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd ready{fd, POLLOUT, 0};
      ::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace paramedic::supervise
