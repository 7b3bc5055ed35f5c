#include "supervise/messages.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/clock.h"

namespace paramedic::supervise {
namespace {

constexpr size_t kMessageBytesMax = 16 * 1024 * 1024;

}  // namespace

void MessageSocket::send(const Json& message) {
  if (!fd_.valid()) return;
  // SIGPIPE is ignored on both sides; a failed send shows as the end when receiving.
  (void)write_all(fd_.get(), to_text(message) + "\n");
}

std::optional<Json> MessageSocket::take_line() {
  const size_t end = buffer_.find('\n');
  if (end == std::string::npos) return std::nullopt;
  auto message = parse_json(std::string_view(buffer_).substr(0, end), "a message of the agent");
  buffer_.erase(0, end + 1);
  if (message.ok()) return std::move(message).value();
  fd_.reset();
  return std::nullopt;
}

std::optional<Json> MessageSocket::receive() {
  while (fd_.valid()) {
    if (auto message = take_line()) return message;
    if (!fd_.valid()) break;
    char bytes[16 * 1024];
    const ssize_t got = ::recv(fd_.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return std::nullopt;
    if (got <= 0 || buffer_.size() + static_cast<size_t>(got) > kMessageBytesMax) {
      fd_.reset();
      break;
    }
    buffer_.append(bytes, static_cast<size_t>(got));
  }
  return std::nullopt;
}

std::optional<Json> MessageSocket::wait_for_message(int timeout_ms) {
  const int64_t deadline_ns = real_clock().monotonic_ns() + int64_t{timeout_ms} * 1'000'000;
  while (true) {
    if (auto message = receive()) return message;
    const int64_t left_ns = deadline_ns - real_clock().monotonic_ns();
    if (!fd_.valid() || left_ns <= 0) return std::nullopt;
    pollfd ready{fd_.get(), POLLIN, 0};
    ::poll(&ready, 1, static_cast<int>(left_ns / 1'000'000) + 1);
  }
}

}  // namespace paramedic::supervise
