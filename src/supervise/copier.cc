#include "supervise/copier.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>

#include "base/clock.h"
#include "supervise/output_times.h"
#include "supervise/repeat.h"

namespace paramedic::supervise {
namespace {

constexpr size_t kChunkBytes = 64 * 1024;
// Window sizes are looked at this often, since SIGWINCH goes to the job alone while it holds the
// terminal.
constexpr int kWindowPollMs = 250;

class CopyLoop {
 public:
  explicit CopyLoop(const CopierOptions& options)
      : options_(options),
        source_(options.source),
        log_(options.log),
        times_(Fd(options.times)),
        control_(options.control),
        counter_(options.counter) {
    counter_.begin();
    counter_.end(position());
  }

  void run() {
    while (source_.valid()) {
      std::array<pollfd, 3> ready{
          {{source_.get(), POLLIN, 0},
           {options_.sink, 0, 0},  // asks for nothing: only what is wrong with it
           {control_.get(), POLLIN, 0}}};
      if (::poll(ready.data(), ready.size(), options_.is_pty ? kWindowPollMs : -1) < 0) continue;
      if (options_.is_pty) follow_window(false);
      if (ready[2].revents != 0) take_messages();
      if (ready[1].revents != 0) {
        sink_failed(EPIPE);
      } else if (ready[0].revents != 0) {
        copy_chunk();
      }
    }
  }

 private:
  enum class Got { kBytes, kNothing, kEnd };

  Got copy_chunk() {
    counter_.begin();
    const ssize_t got = ::read(source_.get(), buffer_.data(), buffer_.size());
    const Got result = got > 0 ? copy({buffer_.data(), static_cast<size_t>(got)}) : Got::kNothing;
    counter_.end(position());
    if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) return result;
    source_.reset();  // a pty whose other end is closed answers EIO
    return Got::kEnd;
  }

  Got copy(std::string_view bytes) {
    read_ += bytes.size();
    if (repeat_.is_on()) {
      const Repeat::Rest rest = repeat_.pass(log_.get(), bytes);
      if (!rest.begun.empty() && !emit(rest.begun)) return Got::kEnd;
      bytes = rest.bytes;
    }
    return bytes.empty() || emit(bytes) ? Got::kBytes : Got::kEnd;
  }

  bool emit(std::string_view bytes) {
    if (log_.valid()) times_.note(copied_, real_clock().wall_ns());
    copied_ += bytes.size();
    write_log(bytes);
    const int error_number = write_all(options_.sink, bytes);
    if (error_number != 0) sink_failed(error_number);
    return error_number == 0;
  }

  // Where the job's output stands, counted in what the user has seen of it.
  [[nodiscard]] uint64_t position() const {
    if (!log_.valid()) return kPositionUnknown;
    return repeat_.is_on() ? repeat_.position() : copied_;
  }

  void write_log(std::string_view bytes) {
    if (!log_.valid()) return;
    const int error_number = write_all(log_.get(), bytes);
    if (error_number == 0) return;
    log_.reset();
    send(CopierMessage::kLogFailed, error_number);
  }

  void sink_failed(int error_number) {
    source_.reset();
    send(CopierMessage::kSinkFailed, error_number);
  }

  void take_messages() {
    CopierMessage message;
    const ssize_t got = ::read(control_.get(), &message, sizeof message);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got != sizeof message) {  // the supervisor is gone; the job may not be
      control_.reset();
      return;
    }
    if (message.kind == CopierMessage::kStarted) job_group_ = static_cast<pid_t>(message.value);
    if (message.kind == CopierMessage::kWindow) follow_window(true);
    if (message.kind == CopierMessage::kEnded) {
      job_group_ = 0;
      drain();
      send(CopierMessage::kDrained, 0);
    }
    if (message.kind == CopierMessage::kRepeats) expect_again(static_cast<uint64_t>(message.value));
  }

  // The command has ended: what it wrote lies in the channel now. Others may hold the channel
  // and go on writing, so no more is awaited here than a channel can hold.
  void drain() {
    const int capacity = ::fcntl(source_.get(), F_GETPIPE_SZ);
    const uint64_t enough =
        read_ + (capacity > 0 ? static_cast<uint64_t>(capacity) : 2 * kChunkBytes);
    while (read_ < enough && copy_chunk() == Got::kBytes) {
    }
  }

  // An earlier state of the job goes on, which had written as much as `from`.
  void expect_again(uint64_t from) {
    drain();
    counter_.begin();
    if (log_.valid() && from <= copied_) repeat_ = Repeat(from, copied_);
    counter_.end(position());
    send(CopierMessage::kReady, 0);
  }

  void follow_window(bool always_tell) {
    if (!options_.is_pty || !source_.valid()) return;
    const bool changed = copy_window_size(options_.sink, source_.get());
    if ((changed || always_tell) && job_group_ > 0) ::kill(-job_group_, SIGWINCH);
  }

  void send(CopierMessage::Kind kind, int64_t value) {
    const CopierMessage message{kind, value};
    // MSG_DONTWAIT: the supervisor reads all the time, and nothing here may wait for it.
    (void)!::send(control_.get(), &message, sizeof message, MSG_DONTWAIT | MSG_NOSIGNAL);
  }

  const CopierOptions options_;
  Fd source_;
  Fd log_;
  OutputTimesWriter times_;
  Fd control_;
  pid_t job_group_ = 0;
  OutputCounter counter_;
  Repeat repeat_;
  uint64_t read_ = 0;    // bytes taken out of the channel
  uint64_t copied_ = 0;  // bytes given to the user
  std::array<char, kChunkBytes> buffer_{};
};

// Another channel's end held open here would keep that channel from ever ending.
void close_all_but(std::array<int, 5> kept) {
  std::sort(kept.begin(), kept.end());
  unsigned int next = 0;
  for (const int fd : kept) {
    if (fd < 0) continue;
    const auto number = static_cast<unsigned int>(fd);
    if (number > next) ::syscall(SYS_close_range, next, number - 1, 0);
    next = number + 1;
  }
  ::syscall(SYS_close_range, next, ~0U, 0);
}

}  // namespace

void copy_until_end(const CopierOptions& options) { CopyLoop(options).run(); }

Result<Copier> start_copier(const Channel& channel, LogFiles files, OutputCounter counter) {
  PARAMEDIC_ASSIGN(FdPair control, make_socket_pair());
  const CopierOptions options{.source = channel.source.get(),
                              .sink = channel.sink,
                              .log = files.log,
                              .times = files.times,
                              .control = control.second.get(),
                              .is_pty = channel.is_pty,
                              .counter = counter};
  const pid_t pid = ::fork();
  if (pid < 0) return errno_error("cannot start", "a process for the job's output", errno);
  if (pid == 0) {
    // Out of reach of what is sent to our process group and of the terminal's signals.
    ::setsid();
    ::prctl(PR_SET_NAME, "paramedic-copy");
    close_all_but({options.source, options.sink, options.log, options.times, options.control});
    copy_until_end(options);
    ::_exit(0);
  }
  PARAMEDIC_TRY(set_nonblocking(control.first.get()));
  return Copier{pid, std::move(control.first), channel.carries_stdout};
}

}  // namespace paramedic::supervise
