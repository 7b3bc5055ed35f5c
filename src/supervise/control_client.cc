#include "supervise/control_client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "base/clock.h"
#include "supervise/control_address.h"

namespace paramedic::supervise {
namespace {

constexpr size_t kReadBytesMax = 4096;

Result<Fd> connect_to_agent(const std::string& path) {
  // A link is not followed: the folder may come from somebody else and lead anywhere.
  const Fd file(::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!file.valid()) return not_found("no agent listens at " + path);
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const ControlAddress address(file.get());
  if (!fd.valid() || ::connect(fd.get(), address.get(), address.bytes()) != 0) {
    return errno_error("cannot connect to", path, errno);
  }
  return fd;
}

}  // namespace

Result<ControlClient> ControlClient::connect(const std::string& run_dir) {
  PARAMEDIC_ASSIGN(Fd fd, connect_to_agent(run_dir + "/" + record::kControlSocketName));
  ControlClient client(std::move(fd));
  PARAMEDIC_TRY(client.send(record::hello_message(::getpid())));
  return client;
}

// What we send is read at once by an agent that lives, so that room is only short for a moment.
Status ControlClient::send(const record::ControlMessage& message) {
  PARAMEDIC_ASSIGN(const std::string bytes, record::encode_control(message));
  const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(bytes.size())) return {};
  return sent < 0 ? errno_error("cannot write to", "the agent", errno)
                  : io_error("the agent does not read");
}

Result<record::ControlMessage> ControlClient::receive(int timeout_ms) {
  const int64_t start_ns = real_clock().monotonic_ns();
  const int64_t deadline_ns =
      timeout_ms < 0 ? INT64_MAX : start_ns + int64_t{timeout_ms} * 1'000'000;
  while (true) {
    while (!arrived_.empty()) {
      record::ControlMessage message = std::move(arrived_.front());
      arrived_.pop_front();
      if (message.type == record::ControlType::kHello) continue;
      if (message.type != record::ControlType::kError) return message;
      return io_error("the agent refused: " + string_or(message.fields, "message", ""));
    }
    const int64_t left_ns = deadline_ns - real_clock().monotonic_ns();
    if (left_ns <= 0) return exhausted("the agent did not answer in time");
    pollfd ready{fd_.get(), POLLIN, 0};
    const int64_t wait_ms = std::min<int64_t>(left_ns / 1'000'000 + 1, INT_MAX);
    ::poll(&ready, 1, static_cast<int>(wait_ms));
    PARAMEDIC_TRY(read_some());
  }
}

Status ControlClient::read_some() {
  std::byte bytes[kReadBytesMax];
  const ssize_t got = ::recv(fd_.get(), bytes, sizeof bytes, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return {};
  if (got < 0) return errno_error("cannot read from", "the agent", errno);
  if (got == 0) return io_error("the agent hung up");
  return decoder_.feed(
      Bytes(bytes, static_cast<size_t>(got)),
      [this](const record::ControlMessage& message) { arrived_.push_back(message); });
}

Status request_flush(const std::string& run_dir, int timeout_ms) {
  PARAMEDIC_ASSIGN(ControlClient client, ControlClient::connect(run_dir));
  PARAMEDIC_TRY(client.send(record::flush_message()));
  PARAMEDIC_ASSIGN(const auto answer, client.receive(timeout_ms));
  if (answer.type == record::ControlType::kDone) return {};
  return io_error("the agent answered something else");
}

}  // namespace paramedic::supervise
