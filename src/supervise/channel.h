#pragma once
// How the job's stdout and stderr reach us: through a pty where the user's own stream is a
// terminal, else through a pipe; one channel for both where the user's two streams are one file,
// so that the order of what is written to them stays exact.

#include <sys/types.h>

#include <vector>

#include "supervise/fd.h"

namespace paramedic::supervise {

struct Channel {
  Fd source;      // our end, non-blocking
  Fd job_end;     // becomes the job's stream; closed here once the job has it
  int sink = -1;  // the user's stream; not owned
  bool is_pty = false;
  bool carries_stdout = false;
  bool carries_stderr = false;
};

// Channels for the user's streams `stdout_fd` and `stderr_fd`; a closed stream gets none.
Result<std::vector<Channel>> open_channels(int stdout_fd, int stderr_fd);

// Gives the terminal `from`'s window size to `to`. True when that changed it.
bool copy_window_size(int from, int to);

}  // namespace paramedic::supervise
