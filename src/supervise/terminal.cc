#include "supervise/terminal.h"

#include <fcntl.h>
#include <unistd.h>

namespace paramedic::supervise {

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

void Terminal::take_back() {
  if (borrower_ == 0) return;
  // When a shell has put us into the background meanwhile, the terminal is no longer ours.
  if (::tcgetpgrp(tty_.get()) == borrower_) ::tcsetpgrp(tty_.get(), ::getpgrp());
  borrower_ = 0;
}

bool can_be_stopped() { return ::getpgrp() != ::getsid(0); }

}  // namespace paramedic::supervise
