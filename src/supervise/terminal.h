#pragma once
// The controlling terminal, lent to the job: at the start where nobody else in our process group
// could want it, else when the job first reads from it. Main thread.
//
// A pager behind us in a pipeline and a shell script around us keep the terminal that they would
// have without us (docs/design/0006).

#include <sys/types.h>
#include <termios.h>

#include <optional>

#include "supervise/fd.h"

namespace paramedic::supervise {

class Terminal {
 public:
  // Without a controlling terminal every question below answers no.
  Terminal();

  // Whether our group may use the terminal now.
  [[nodiscard]] bool is_ours() const;
  // Gives it to `group` if it is ours to give. True when `group` has it afterwards.
  bool lend(pid_t group);
  // Whether the job may have it from the start: we read from it, and are alone in our group.
  [[nodiscard]] bool is_for_us_alone() const;
  // Takes it back from the group that it was lent to, if that still has it.
  void take_back();
  [[nodiscard]] bool is_lent() const { return borrower_ != 0; }
  // For somebody who may be killed while he has changed them.
  void keep_settings();
  void put_settings_back();

 private:
  Fd tty_;
  pid_t borrower_ = 0;
  std::optional<termios> settings_;
};

// Whether a stop signal would really stop our process group: the kernel ignores them where no
// shell is left that could continue it.
bool can_be_stopped();

}  // namespace paramedic::supervise
