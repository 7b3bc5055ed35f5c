#include "supervise/control_server.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/log.h"
#include "supervise/control_address.h"

namespace paramedic::supervise {
namespace {

// Of those whom we owe nothing: processes that wait for a repair are as many as there are ranks.
constexpr size_t kConnectionsMax = 16;
constexpr size_t kAllConnectionsMax = 512;
constexpr int kAcceptsMax = 16;  // in one `serve`
constexpr size_t kReadBytesMax = 16 * 1024;
constexpr int64_t kSilenceNsMax = 10'000'000'000;
// Each flush makes a batch in each table: who asks without pause must not make thousands.
constexpr int64_t kFlushGapNs = 100'000'000;

// The same user, or root, who may read everything anyway.
bool may_connect(int fd) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) return false;
  return peer.uid == ::geteuid() || peer.uid == 0;
}

// Whether the whole message found room: who does not take his answers is not waited for.
bool send_at_once(int fd, const record::ControlMessage& message) {
  const auto bytes = record::encode_control(message);
  if (!bytes.ok()) return false;
  const ssize_t sent = ::send(fd, bytes->data(), bytes->size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent == static_cast<ssize_t>(bytes->size());
}

}  // namespace

ControlServer::ControlServer(const std::string& run_dir, Flush flush, const Clock& clock)
    : flush_(std::move(flush)), clock_(clock) {
  const Status status = listen(run_dir);
  if (status.ok()) return;
  log::info("{}", status.message());
  ready_.reset();
}

ControlServer::~ControlServer() {
  if (has_file_) ::unlinkat(folder_.get(), record::kControlSocketName, 0);
}

Status ControlServer::listen(const std::string& run_dir) {
  const std::string path = run_dir + "/" + record::kControlSocketName;
  folder_ = Fd(::open(run_dir.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder_.valid()) return errno_error("cannot open", run_dir, errno);
  listener_ = Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  // The file gets the mode that the socket has.
  if (!listener_.valid() || ::fchmod(listener_.get(), 0600) != 0) {
    return errno_error("cannot make", path, errno);
  }
  const ControlAddress address(folder_.get(), record::kControlSocketName);
  if (::bind(listener_.get(), address.get(), address.bytes()) != 0) {
    return errno_error("cannot make", path, errno);
  }
  has_file_ = true;
  if (::listen(listener_.get(), kConnectionsMax) != 0) {
    return errno_error("cannot listen on", path, errno);
  }
  ready_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!ready_.valid()) return errno_error("cannot listen on", path, errno);
  return notify_of(listener_.get());
}

Status ControlServer::notify_of(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (::epoll_ctl(ready_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return errno_error("cannot listen on", "the control socket", errno);
}

void ControlServer::serve() {
  if (!ready_.valid()) return;
  accept_some();
  for (Connection& connection : connections_) read_some(connection);
  answer_flushes();
  remove_ended();
}

void ControlServer::remove_ended() {
  const int64_t now_ns = clock_.monotonic_ns();
  std::vector<uint64_t> ended;
  for (Connection& connection : connections_) {
    const bool is_patient = handler_ != nullptr && handler_->is_patient(connection.number);
    if (is_patient) connection.heard_ns = now_ns;
    if (now_ns - connection.heard_ns > kSilenceNsMax) connection.is_over = true;
    if (connection.is_over) ended.push_back(connection.number);
  }
  std::erase_if(connections_, [](const Connection& connection) { return connection.is_over; });
  // Afterwards: the handler may send to others.
  for (const uint64_t number : ended) {
    if (handler_ != nullptr) handler_->left(number);
  }
}

size_t ControlServer::impatient() const {
  if (handler_ == nullptr) return connections_.size();
  return std::count_if(
      connections_.begin(), connections_.end(),
      [this](const Connection& connection) { return !handler_->is_patient(connection.number); });
}

void ControlServer::send(uint64_t connection, const record::ControlMessage& message) {
  const auto found =
      std::find_if(connections_.begin(), connections_.end(),
                   [connection](const Connection& its) { return its.number == connection; });
  if (found == connections_.end() || found->is_over) return;
  found->is_over = !send_at_once(found->fd.get(), message);
}

void ControlServer::accept_some() {
  for (int i = 0; i < kAcceptsMax && listener_.valid(); ++i) {
    Fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) {
      if (errno == EAGAIN) return;
      if (errno == EINTR || errno == ECONNABORTED) continue;
      // Such as no descriptors left: a socket that stays readable would keep the agent awake.
      log::info("{}", errno_error("cannot accept on", "the control socket", errno).message());
      listener_.reset();
      return;
    }
    if (impatient() >= kConnectionsMax || connections_.size() >= kAllConnectionsMax) continue;
    if (!may_connect(fd.get()) || !notify_of(fd.get()).ok()) continue;
    connections_.push_back({next_number_++, std::move(fd), clock_.monotonic_ns()});
  }
}

void ControlServer::read_some(Connection& connection) {
  std::byte bytes[kReadBytesMax];
  const ssize_t got = ::recv(connection.fd.get(), bytes, sizeof bytes, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    connection.is_over = true;
    return;
  }
  const Status status = connection.decoder.feed(
      Bytes(bytes, static_cast<size_t>(got)),
      [&](const record::ControlMessage& message) { take(connection, message); });
  if (status.ok() || connection.is_over) return;
  (void)send_at_once(connection.fd.get(), record::error_message(status.message()));
  connection.is_over = true;
}

void ControlServer::take(Connection& connection, const record::ControlMessage& message) {
  if (connection.is_over) return;
  connection.heard_ns = clock_.monotonic_ns();
  using Type = record::ControlType;
  if (message.type == Type::kHello) {
    connection.is_greeted = true;
    connection.is_over = !send_at_once(connection.fd.get(), record::hello_message(::getpid()));
  } else if (message.type == Type::kFlush && connection.is_greeted) {
    connection.wants_flush = true;
  } else if (!connection.is_greeted || handler_ == nullptr ||
             !handler_->take(connection.number, message)) {
    const char* why = connection.is_greeted ? "this message makes no sense here"
                                            : "the first message has to be hello";
    (void)send_at_once(connection.fd.get(), record::error_message(why));
    connection.is_over = true;
  }
}

// One flush serves all who asked.
void ControlServer::answer_flushes() {
  const int64_t now_ns = clock_.monotonic_ns();
  const bool is_asked = std::any_of(
      connections_.begin(), connections_.end(),
      [](const Connection& connection) { return connection.wants_flush && !connection.is_over; });
  if (!is_asked || now_ns < next_flush_ns_) return;
  next_flush_ns_ = now_ns + kFlushGapNs;
  const record::ControlMessage done = record::done_message(flush_());
  for (Connection& connection : connections_) {
    if (connection.is_over || !std::exchange(connection.wants_flush, false)) continue;
    connection.is_over = !send_at_once(connection.fd.get(), done);
  }
}

}  // namespace paramedic::supervise
