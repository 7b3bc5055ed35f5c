#pragma once
// TCP with a deadline on every call, for the network probe. Owns one descriptor. One thread.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace paramedic::cluster {

// A point in time of the monotonic clock, ns.
using Deadline = int64_t;
Deadline deadline_in_ms(int64_t ms);

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();

  // Waits at `port` of all addresses; port 0 takes a free one.
  static Result<Socket> listen(int32_t port);
  // The status is kNotFound for a name without address, kIoError otherwise.
  static Result<Socket> connect(const std::string& host, int32_t port, Deadline deadline);

  // Nothing when nobody came until the deadline.
  [[nodiscard]] std::optional<Socket> accept(Deadline deadline) const;
  Status send(std::string_view bytes, Deadline deadline) const;
  // Up to and without '\n', at most `bytes_max`.
  Result<std::string> receive_line(size_t bytes_max, Deadline deadline);
  // Reads and drops so many bytes.
  Status receive_and_drop(uint64_t bytes, Deadline deadline);

  [[nodiscard]] bool valid() const { return fd_ >= 0; }
  [[nodiscard]] int32_t port() const;  // own
  [[nodiscard]] int32_t mtu() const;   // of the path to the peer; 0 = not known

 private:
  Status fill(Deadline deadline);

  int fd_ = -1;
  std::string buffer_;  // received, not yet asked for
};

}  // namespace paramedic::cluster
