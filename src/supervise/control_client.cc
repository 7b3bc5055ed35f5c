#include "supervise/control_client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "base/clock.h"
#include "record/control.h"
#include "supervise/control_address.h"
#include "supervise/fd.h"

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

// Waits for the answer; the other side may be anyone and send anything.
class Answer {
 public:
  explicit Answer(int fd) : fd_(fd) {}

  Status wait(int timeout_ms) {
    const int64_t deadline_ns = real_clock().monotonic_ns() + int64_t{timeout_ms} * 1'000'000;
    while (!is_done_) {
      const int64_t left_ns = deadline_ns - real_clock().monotonic_ns();
      if (left_ns <= 0) return exhausted("the agent did not answer in time");
      pollfd ready{fd_, POLLIN, 0};
      ::poll(&ready, 1, static_cast<int>(left_ns / 1'000'000) + 1);
      PARAMEDIC_TRY(read_some());
    }
    return {};
  }

 private:
  Status read_some() {
    std::byte bytes[kReadBytesMax];
    const ssize_t got = ::recv(fd_, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return {};
    if (got < 0) return errno_error("cannot read from", "the agent", errno);
    if (got == 0) return io_error("the agent hung up");
    PARAMEDIC_TRY(decoder_.feed(Bytes(bytes, static_cast<size_t>(got)),
                                [this](const record::ControlMessage& message) { take(message); }));
    return refusal_;
  }

  void take(const record::ControlMessage& message) {
    if (message.type == record::ControlType::kDone) is_done_ = true;
    if (message.type == record::ControlType::kError) {
      refusal_ = io_error("the agent refused: " + string_or(message.fields, "message", ""));
    }
  }

  const int fd_;
  record::ControlDecoder decoder_;
  bool is_done_ = false;
  Status refusal_;
};

}  // namespace

Status request_flush(const std::string& run_dir, int timeout_ms) {
  PARAMEDIC_ASSIGN(const Fd fd, connect_to_agent(run_dir + "/" + record::kControlSocketName));
  PARAMEDIC_ASSIGN(const std::string hello,
                   record::encode_control(record::hello_message(::getpid())));
  PARAMEDIC_ASSIGN(const std::string flush, record::encode_control(record::flush_message()));
  const std::string bytes = hello + flush;
  // A new socket has room for it.
  if (::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(bytes.size())) {
    return errno_error("cannot write to", "the agent", errno);
  }
  return Answer(fd.get()).wait(timeout_ms);
}

}  // namespace paramedic::supervise
