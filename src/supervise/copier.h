#pragma once
// One small process for each channel that does nothing but copy the job's bytes to the user's
// stream and to the log. It is a process of its own, with no part in anything else that we do, so
// that the job's output goes on whatever becomes of us, and after us (docs/design/0006).

#include <sys/types.h>

#include <cstdint>

#include "supervise/channel.h"
#include "supervise/output_page.h"

namespace paramedic::supervise {

// What the supervisor and a copier tell each other, as whole structs over a socket.
struct CopierMessage {
  enum Kind : int32_t {
    kStarted = 1,     // to the copier: `value` is the job's process group
    kWindow = 2,      // to the copier: the window may have changed
    kEnded = 3,       // to the copier: the command has ended
    kDrained = 4,     // from it: all that the command had written by then has been copied
    kLogFailed = 5,   // from it: the log was given up, `value` is the errno
    kSinkFailed = 6,  // from it: the user's stream does not take any more, `value` is the errno
    kRepeats = 7,     // to the copier: what comes next was printed before, from `value` on
    kReady = 8,       // from it: all that had been written before kRepeats has been copied
  };
  int64_t kind = 0;
  int64_t value = 0;
};

struct CopierOptions {
  int source = -1;  // non-blocking
  int sink = -1;
  int log = -1;    // open for reading too; -1: no log
  int times = -1;  // output_times.h; -1: none
  int control = -1;
  bool is_pty = false;
  OutputCounter counter;
};

// Copies until the end of the source, or until the sink fails: then the source is closed, so that
// the job meets what it would have met itself. Signals are blocked already.
void copy_until_end(const CopierOptions& options);

struct Copier {
  pid_t pid = 0;
  Fd control;  // the supervisor's end, non-blocking
  bool carries_stdout = false;
};

// Where a copier writes what it copies; -1 = not at all.
struct LogFiles {
  int log = -1;
  int times = -1;
};

// Forks a copier in a session of its own, with all other descriptors closed. While the caller is
// the only thread.
Result<Copier> start_copier(const Channel& channel, LogFiles files, OutputCounter counter);

}  // namespace paramedic::supervise
