#include "supervise/terminal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "supervise/process.h"

namespace paramedic::supervise {
namespace {

bool is_pipe(int fd) {
  struct stat info{};
  return ::fstat(fd, &info) == 0 && (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode));
}

}  // namespace

Terminal::Terminal() : tty_(::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)) {}

bool Terminal::is_ours() const { return tty_.valid() && ::tcgetpgrp(tty_.get()) == ::getpgrp(); }

bool Terminal::lend(pid_t group) {
  if (!tty_.valid()) return false;
  const pid_t holder = ::tcgetpgrp(tty_.get());
  if (holder != group && (holder != ::getpgrp() || ::tcsetpgrp(tty_.get(), group) != 0)) {
    return false;
  }
  borrower_ = group;
  return true;
}

bool Terminal::is_for_us_alone() const {
  if (!is_ours() || !::isatty(STDIN_FILENO) || ::getpgrp() != ::getpid()) return false;
  // What reads from us may not have joined the group yet.
  if (is_pipe(STDOUT_FILENO) || is_pipe(STDERR_FILENO)) return false;
  for (const pid_t pid : list_processes("/proc")) {
    if (pid != ::getpid() && ::getpgid(pid) == ::getpgrp()) return false;
  }
  return true;
}

void Terminal::take_back() {
  if (borrower_ == 0) return;
  // When a shell has put us into the background meanwhile, the terminal is no longer ours.
  if (::tcgetpgrp(tty_.get()) == borrower_) ::tcsetpgrp(tty_.get(), ::getpgrp());
  borrower_ = 0;
}

void Terminal::keep_settings() {
  termios settings{};
  if (tty_.valid() && ::tcgetattr(tty_.get(), &settings) == 0) settings_ = settings;
}

void Terminal::put_settings_back() {
  if (settings_ && is_ours()) ::tcsetattr(tty_.get(), TCSADRAIN, &*settings_);
  settings_.reset();
}

bool can_be_stopped() { return ::getpgrp() != ::getsid(0); }

}  // namespace paramedic::supervise
