#pragma once
// A file descriptor that closes itself, and the few calls on descriptors that must be right
// everywhere. No state; any thread.

#include <string_view>
#include <utility>

#include "base/status.h"

namespace paramedic::supervise {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() { reset(); }

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset();

 private:
  int fd_ = -1;
};

struct FdPair {
  Fd first;
  Fd second;
};

// Both ends close on exec. `first` of a pipe is the read end.
Result<FdPair> make_pipe();
// A connected pair of stream sockets; both ends close on exec.
Result<FdPair> make_socket_pair();

Status set_nonblocking(int fd);
bool is_open(int fd);

// Writes everything, waiting where the descriptor is full (also when somebody who shares it made
// it non-blocking). 0, or the errno of the failure.
int write_all(int fd, std::string_view bytes);

}  // namespace paramedic::supervise
