#pragma once
// Starts the job's command: argv untouched, in a process group of its own. Main thread, while it
// is the only one (fork).

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "supervise/signals.h"

namespace paramedic::supervise {

using Environment = std::vector<std::pair<std::string, std::string>>;

struct CommandOptions {
  std::vector<std::string> argv;  // at least one
  Environment environment;        // set in the job beside what it inherits
  int stdout_fd = -1;             // becomes the job's stdout; -1: inherited
  int stderr_fd = -1;
};

struct Started {
  pid_t pid = 0;         // also the number of its process group; 0: not started
  int error_number = 0;  // of exec
};

// A failed exec is no Status but an answer: see `exec_failure`.
Result<Started> start_command(const CommandOptions& options, const SignalGuard& signals);

// What a shell says and answers when it cannot execute a command: 127 when there is none of that
// name, else 126.
struct ExecFailure {
  int exit_code = 0;
  std::string message;
};
ExecFailure exec_failure(const std::string& command, int error_number);

}  // namespace paramedic::supervise
