#include "supervise/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>

namespace paramedic::supervise {
namespace {

// What is handed on to the job, and what tells about it. Everything else keeps its meaning.
constexpr int kWatched[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,  SIGUSR1,
                            SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH, SIGCHLD};

void set_disposition(int signal, void (*handler)(int), struct sigaction* old) {
  struct sigaction action{};
  action.sa_handler = handler;
  ::sigaction(signal, &action, old);
}

}  // namespace

Result<SignalGuard> SignalGuard::install() {
  SignalGuard guard;
  sigset_t watched;
  ::sigemptyset(&watched);
  for (const int signal : kWatched) {
    struct sigaction current{};
    ::sigaction(signal, nullptr, &current);
    // Blocked signals are queued even when they are ignored, so an ignored one must not be blocked.
    if (signal == SIGCHLD || current.sa_handler != SIG_IGN) ::sigaddset(&watched, signal);
  }
  guard.fd_ = Fd(::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!guard.fd_.valid()) return errno_error("cannot watch", "signals", errno);
  // An ignored SIGCHLD would take the exit code away; a write must answer EPIPE, not kill us; a
  // background process that gives the terminal away would be stopped by SIGTTOU; a log that meets
  // the file size limit must answer EFBIG.
  set_disposition(SIGCHLD, SIG_DFL, &guard.old_child_);
  set_disposition(SIGPIPE, SIG_IGN, &guard.old_pipe_);
  set_disposition(SIGTTOU, SIG_IGN, &guard.old_terminal_output_);
  set_disposition(SIGXFSZ, SIG_IGN, &guard.old_file_size_);
  ::sigprocmask(SIG_BLOCK, &watched, &guard.old_mask_);
  return guard;
}

SignalGuard::~SignalGuard() {
  if (fd_.valid()) restore();
}

std::optional<int> SignalGuard::next() const {
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

void SignalGuard::restore() const {
  ::sigaction(SIGCHLD, &old_child_, nullptr);
  ::sigaction(SIGPIPE, &old_pipe_, nullptr);
  ::sigaction(SIGTTOU, &old_terminal_output_, nullptr);
  ::sigaction(SIGXFSZ, &old_file_size_, nullptr);
  ::sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
}

}  // namespace paramedic::supervise
