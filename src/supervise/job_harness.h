#pragma once
// For tests: `run_job` in a forked process, as a shell would start it, with pipes or a terminal of
// the test's own for its three streams.

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/test_folder.h"
#include "supervise/fd.h"
#include "supervise/job.h"

namespace paramedic::supervise {

// Options for a command whose run is named "run" and lies in `folder`.
JobOptions job_in(const TemporaryFolder& folder, std::vector<std::string> command);
JobOptions shell_job_in(const TemporaryFolder& folder, const std::string& script);

// What a forked copy of this program does with `options`: ends as `paramedic run` would.
[[noreturn]] void run_and_exit(const JobOptions& options);

// A job under way whose streams are pipes. `prepare` runs in the forked process before run_job.
class PipedJob {
 public:
  explicit PipedJob(const JobOptions& options, const std::function<void()>& prepare = {});

  [[nodiscard]] pid_t pid() const { return pid_; }  // of what stands for `paramedic run`
  void write_input(const std::string& text);
  void close_input() { input_.reset(); }
  void close_output() { output_.reset(); }
  // Reads stdout until it holds `text`; fails the test when it ends before.
  void wait_for_output(const std::string& text);
  // Reads both streams to their end, then answers waitpid's status as a shell's exit code.
  int wait();
  // Only waits for the process.
  int wait_for_exit() const;
  [[nodiscard]] const std::string& out() const { return out_; }
  [[nodiscard]] const std::string& err() const { return err_; }

 private:
  bool read_some();

  pid_t pid_ = 0;
  Fd input_;
  Fd output_;
  Fd errors_;
  std::string out_;
  std::string err_;
};

// A job under way on a terminal of the test's own.
class TerminalJob {
 public:
  enum Around {
    kNothing,  // it leads the session, as in a container
    kShell,    // a stand-in for a shell with job control starts it in a group of its own
    kScript,   // the same, and a script's process is in the group too
  };
  explicit TerminalJob(const JobOptions& options, Around around = kNothing);

  void type(const std::string& text);  // "\x03" is Ctrl-C
  void resize(unsigned short rows, unsigned short columns);
  void hang_up() { terminal_.reset(); }
  // Reads the screen until it holds `text`.
  void wait_for_screen(const std::string& text);
  int wait();
  [[nodiscard]] const std::string& screen() const { return screen_; }

 private:
  pid_t pid_ = 0;
  Fd terminal_;
  std::string screen_;
};

}  // namespace paramedic::supervise
