#include "cluster/probe/socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/clock.h"

namespace paramedic::cluster {
namespace {

constexpr int kBacklog = 64;
constexpr size_t kChunkBytes = 64U << 10;
constexpr size_t kBufferBytesMax = 1U << 20;

int64_t now_ns() { return real_clock().monotonic_ns(); }

// Whether the descriptor became ready in time.
bool wait_for(int fd, short events, Deadline deadline) {
  for (;;) {
    const int64_t left_ms = std::max<int64_t>((deadline - now_ns()) / 1'000'000, 0);
    pollfd ready{fd, events, 0};
    const int count = ::poll(&ready, 1, static_cast<int>(std::min<int64_t>(left_ms, 60'000)));
    if (count > 0) return true;
    if (count == 0 && now_ns() >= deadline) return false;
    if (count < 0 && errno != EINTR) return false;
  }
}

Status timed_out(const char* what) { return io_error(fmt::format("timeout of {}", what)); }

Status connect_to(int fd, const addrinfo& address, Deadline deadline) {
  if (::connect(fd, address.ai_addr, address.ai_addrlen) == 0) return {};
  if (errno != EINPROGRESS) return errno_error("cannot connect", "", errno);
  if (!wait_for(fd, POLLOUT, deadline)) return timed_out("the connection");
  int error = 0;
  socklen_t bytes = sizeof error;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
  return error == 0 ? Status() : errno_error("cannot connect", "", error);
}

}  // namespace

Deadline deadline_in_ms(int64_t ms) { return now_ns() + ms * 1'000'000; }

Socket::Socket(Socket&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), buffer_(std::move(other.buffer_)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(buffer_, other.buffer_);
  return *this;
}

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

Result<Socket> Socket::listen(int32_t port) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return errno_error("cannot make", "a socket", errno);
  const int on = 1;
  ::setsockopt(socket.fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  const bool bound =
      ::bind(socket.fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  if (!bound || ::listen(socket.fd_, kBacklog) != 0) {
    return errno_error("cannot listen on port", std::to_string(port), errno);
  }
  return socket;
}

Result<Socket> Socket::connect(const std::string& host, int32_t port, Deadline deadline) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  const int failed = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &first);
  if (failed != 0) return not_found(fmt::format("{}: {}", host, ::gai_strerror(failed)));
  Status status;
  for (const addrinfo* entry = first; entry != nullptr; entry = entry->ai_next) {
    Socket socket(::socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.valid()) continue;
    status = connect_to(socket.fd_, *entry, deadline);
    if (!status.ok()) continue;
    const int on = 1;
    ::setsockopt(socket.fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::freeaddrinfo(first);
    return socket;
  }
  ::freeaddrinfo(first);
  return status.ok() ? io_error("no socket for any address of " + host) : status;
}

std::optional<Socket> Socket::accept(Deadline deadline) const {
  if (!wait_for(fd_, POLLIN, deadline)) return std::nullopt;
  const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return std::nullopt;
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return Socket(fd);
}

Status Socket::send(std::string_view bytes, Deadline deadline) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_for(fd_, POLLOUT, deadline)) return timed_out("sending");
    } else if (errno != EINTR) {
      return errno_error("cannot send", "", errno);
    }
  }
  return {};
}

Status Socket::fill(Deadline deadline) {
  for (;;) {
    char chunk[kChunkBytes];
    const ssize_t got = ::recv(fd_, chunk, sizeof chunk, 0);
    if (got > 0) {
      buffer_.append(chunk, static_cast<size_t>(got));
      return {};
    }
    if (got == 0) return io_error("the peer has closed the connection");
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return errno_error("cannot receive", "", errno);
    if (!wait_for(fd_, POLLIN, deadline)) return timed_out("receiving");
  }
}

Result<std::string> Socket::receive_line(size_t bytes_max, Deadline deadline) {
  for (;;) {
    const size_t end = buffer_.find('\n');
    if (end != std::string::npos && end <= bytes_max) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    if (buffer_.size() > std::min(bytes_max, kBufferBytesMax)) {
      return io_error("the peer sent a line that is too long");
    }
    PARAMEDIC_TRY(fill(deadline));
  }
}

Status Socket::receive_and_drop(uint64_t bytes, Deadline deadline) {
  while (bytes > 0) {
    if (buffer_.empty()) PARAMEDIC_TRY(fill(deadline));
    const auto taken = std::min<uint64_t>(bytes, buffer_.size());
    buffer_.erase(0, taken);
    bytes -= taken;
  }
  return {};
}

int32_t Socket::port() const {
  sockaddr_in address{};
  socklen_t bytes = sizeof address;
  if (::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return 0;
  return ntohs(address.sin_port);
}

int32_t Socket::mtu() const {
  int mtu = 0;
  socklen_t bytes = sizeof mtu;
  return ::getsockopt(fd_, IPPROTO_IP, IP_MTU, &mtu, &bytes) == 0 ? mtu : 0;
}

}  // namespace paramedic::cluster
