#pragma once
// JSON lines over a socket: how the supervisor and the agent's process talk. One thread on each
// side. A side that is gone is an end of messages, never an error.

#include <optional>
#include <string>

#include "base/json.h"
#include "supervise/fd.h"

namespace paramedic::supervise {

class MessageSocket {
 public:
  explicit MessageSocket(Fd fd) : fd_(std::move(fd)) {}

  [[nodiscard]] int fd() const { return fd_.get(); }
  // False once the other side is gone and every message that it sent has been taken.
  [[nodiscard]] bool is_open() const { return fd_.valid(); }
  void close() { fd_.reset(); }
  void send(const Json& message);
  // The next whole message, without waiting. A line that is no JSON closes the socket.
  std::optional<Json> receive();
  // The same, waiting for it at most `timeout_ms`.
  std::optional<Json> wait_for_message(int timeout_ms);

 private:
  std::optional<Json> take_line();

  Fd fd_;
  std::string buffer_;
};

}  // namespace paramedic::supervise
