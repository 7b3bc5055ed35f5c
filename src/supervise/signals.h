#pragma once
// The signals of the program while a job runs under it: blocked, and read from a descriptor
// instead, so that no handler ever runs. One at a time, main thread.

#include <csignal>
#include <optional>

#include "supervise/fd.h"

namespace paramedic::supervise {

class SignalGuard {
 public:
  // A signal that was ignored at the start (nohup) stays ignored, here and in the job.
  static Result<SignalGuard> install();
  SignalGuard(SignalGuard&& other) noexcept = default;
  SignalGuard& operator=(SignalGuard&&) = delete;
  ~SignalGuard();  // puts everything back

  [[nodiscard]] int fd() const { return fd_.get(); }
  // The next signal that arrived, or nothing.
  [[nodiscard]] std::optional<int> next() const;

  // In a forked child before exec: the dispositions and the mask that we were started with.
  // Async-signal-safe.
  void restore() const;

 private:
  SignalGuard() = default;

  Fd fd_;
  sigset_t old_mask_{};
  struct sigaction old_child_{};
  struct sigaction old_pipe_{};
  struct sigaction old_terminal_output_{};
  struct sigaction old_file_size_{};
};

}  // namespace paramedic::supervise
