#pragma once
// How processes end that are not our children: the ranks are the launcher's, which alone may wait
// for them. Linux keeps it in a pidfd that was open by then (6.15 and later); elsewhere nothing is
// learned. One thread.

#include <sys/types.h>

#include <map>
#include <optional>

#include "supervise/fd.h"

namespace paramedic::supervise {

class Exits {
 public:
  // From now on, if it runs; again for the same process does nothing.
  void follow(pid_t pid);
  // As waitpid() would tell it; nothing while it runs, or where the kernel does not tell.
  std::optional<int> wait_status(pid_t pid);

 private:
  struct Followed {
    Fd fd;
    std::optional<int> status;
  };
  std::map<pid_t, Followed> followed_;
};

}  // namespace paramedic::supervise
