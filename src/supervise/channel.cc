#include "supervise/channel.h"

#include <fcntl.h>
#include <linux/kcmp.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace paramedic::supervise {
namespace {

// `> log 2>&1` gives two descriptors of one open file; `> log 2> log` gives two open files.
bool is_same_stream(int first, int second) {
  struct stat a{};
  struct stat b{};
  if (::fstat(first, &a) != 0 || ::fstat(second, &b) != 0) return false;
  if (a.st_dev != b.st_dev || a.st_ino != b.st_ino) return false;
  // A terminal, pipe or socket has no offset of its own: the same object is enough.
  if (!S_ISREG(a.st_mode)) return true;
  const pid_t self = ::getpid();
  // Where the kernel will not compare (a container's filter), `2>&1` is by far the likelier.
  return ::syscall(SYS_kcmp, self, self, KCMP_FILE, first, second) <= 0;
}

Result<Channel> open_pipe(int sink) {
  PARAMEDIC_ASSIGN(FdPair ends, make_pipe());
  Channel channel;
  channel.source = std::move(ends.first);
  channel.job_end = std::move(ends.second);
  channel.sink = sink;
  PARAMEDIC_TRY(set_nonblocking(channel.source.get()));
  return channel;
}

Result<Channel> open_pty(int terminal) {
  Channel channel;
  channel.source = Fd(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  char name[128];
  if (!channel.source.valid() || ::grantpt(channel.source.get()) != 0 ||
      ::unlockpt(channel.source.get()) != 0 ||
      ::ptsname_r(channel.source.get(), name, sizeof name) != 0) {
    return errno_error("cannot open", "a pseudo-terminal", errno);
  }
  channel.job_end = Fd(::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!channel.job_end.valid()) return errno_error("cannot open", name, errno);
  termios settings{};
  if (::tcgetattr(terminal, &settings) == 0) {
    // The user's terminal turns "\n" into "\r\n"; a second time here would change the bytes.
    settings.c_oflag &= ~static_cast<tcflag_t>(OPOST);
    ::tcsetattr(channel.job_end.get(), TCSANOW, &settings);
  }
  copy_window_size(terminal, channel.source.get());
  PARAMEDIC_TRY(set_nonblocking(channel.source.get()));
  channel.sink = terminal;
  channel.is_pty = true;
  return channel;
}

Result<Channel> open_channel(int sink) { return ::isatty(sink) ? open_pty(sink) : open_pipe(sink); }

}  // namespace

Result<std::vector<Channel>> open_channels(int stdout_fd, int stderr_fd) {
  std::vector<Channel> channels;
  const bool has_stderr = is_open(stderr_fd);
  bool shared = false;
  if (is_open(stdout_fd)) {
    shared = has_stderr && is_same_stream(stdout_fd, stderr_fd);
    PARAMEDIC_ASSIGN(Channel channel, open_channel(stdout_fd));
    channel.carries_stdout = true;
    channel.carries_stderr = shared;
    channels.push_back(std::move(channel));
  }
  if (has_stderr && !shared) {
    PARAMEDIC_ASSIGN(Channel channel, open_channel(stderr_fd));
    channel.carries_stderr = true;
    channels.push_back(std::move(channel));
  }
  return channels;
}

bool copy_window_size(int from, int to) {
  winsize wanted{};
  winsize current{};
  if (::ioctl(from, TIOCGWINSZ, &wanted) != 0) return false;
  if (::ioctl(to, TIOCGWINSZ, &current) == 0 && current.ws_row == wanted.ws_row &&
      current.ws_col == wanted.ws_col && current.ws_xpixel == wanted.ws_xpixel &&
      current.ws_ypixel == wanted.ws_ypixel) {
    return false;
  }
  return ::ioctl(to, TIOCSWINSZ, &wanted) == 0;
}

}  // namespace paramedic::supervise
