#include "supervise/job_harness.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

namespace paramedic::supervise {
namespace {

// A test that waits longer than this for something is broken; no test ends by it.
constexpr int kPatienceMs = 60'000;

int shell_exit_code(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int wait_for(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return shell_exit_code(status);
}

// Appends what can be read to `text`; closes the descriptor at its end.
void read_into(Fd& fd, std::string& text) {
  char buffer[1 << 16];
  const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
  if (got > 0) {
    text.append(buffer, static_cast<size_t>(got));
  } else if (got == 0 || errno != EINTR) {
    fd.reset();
  }
}

// A shell script starts its commands in its own group.
[[noreturn]] void act_as_script(const JobOptions& options) {
  const pid_t job = ::fork();
  if (job == 0) run_and_exit(options);
  ::_exit(wait_for(job));
}

// What an interactive shell does with one job: a group in the foreground, `fg` when it stops.
[[noreturn]] void act_as_shell(const JobOptions& options, bool with_script) {
  ::signal(SIGTTOU, SIG_IGN);
  const pid_t job = ::fork();
  if (job == 0) {
    ::setpgid(0, 0);
    ::tcsetpgrp(STDIN_FILENO, ::getpid());
    ::signal(SIGTTOU, SIG_DFL);
    if (with_script) act_as_script(options);
    run_and_exit(options);
  }
  ::setpgid(job, job);
  ::tcsetpgrp(STDIN_FILENO, job);
  int status = 0;
  while (::waitpid(job, &status, WUNTRACED) == job && WIFSTOPPED(status)) {
    const pid_t holder = ::tcgetpgrp(STDIN_FILENO);
    ::tcsetpgrp(STDIN_FILENO, ::getpid());
    ::dprintf(STDOUT_FILENO, "[%s stopped]\n", holder == job ? "ours" : "lent");
    char line[64];
    (void)!::read(STDIN_FILENO, line, sizeof line);  // the person types "fg"
    ::tcsetpgrp(STDIN_FILENO, job);
    ::kill(-job, SIGCONT);
  }
  ::_exit(shell_exit_code(status));
}

}  // namespace

JobOptions job_in(const TemporaryFolder& folder, std::vector<std::string> command) {
  JobOptions options;
  options.command = std::move(command);
  options.runs_dir = folder.path();
  options.name = "run";
  options.python_dir = "/nowhere/python";
  options.probe_path = "/nowhere/libparamedic_probe.so";
  return options;
}

JobOptions shell_job_in(const TemporaryFolder& folder, const std::string& script) {
  return job_in(folder, {"/bin/sh", "-c", script});
}

// nohup and background shells start us with these ignored, and a shell cannot trap what it was
// started with ignored.
void stop_ignoring_signals() {
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT}) ::signal(signal, SIG_DFL);
}

void run_and_exit(const JobOptions& options) {
  const auto outcome = run_job(options);
  if (outcome.ok()) ::_exit(outcome.value().exit_code);
  ::dprintf(STDERR_FILENO, "%s\n", outcome.status().to_string().c_str());
  ::_exit(outcome.status().exit_code());
}

PipedJob::PipedJob(const JobOptions& options, const std::function<void()>& prepare) {
  FdPair in = std::move(make_pipe()).value();
  FdPair out = std::move(make_pipe()).value();
  FdPair err = std::move(make_pipe()).value();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(in.first.get(), STDIN_FILENO);
    ::dup2(out.second.get(), STDOUT_FILENO);
    ::dup2(err.second.get(), STDERR_FILENO);
    for (FdPair* pair : {&in, &out, &err}) {
      pair->first.reset();
      pair->second.reset();
    }
    stop_ignoring_signals();
    if (prepare) prepare();
    run_and_exit(options);
  }
  input_ = std::move(in.second);
  output_ = std::move(out.first);
  errors_ = std::move(err.first);
}

void PipedJob::write_input(const std::string& text) { ASSERT_EQ(write_all(input_.get(), text), 0); }

bool PipedJob::read_some() {
  std::array<pollfd, 2> ready{{{output_.get(), POLLIN, 0}, {errors_.get(), POLLIN, 0}}};
  if (::poll(ready.data(), ready.size(), kPatienceMs) <= 0) return false;
  if (ready[0].revents != 0) read_into(output_, out_);
  if (ready[1].revents != 0) read_into(errors_, err_);
  return true;
}

void PipedJob::wait_for_output(const std::string& text) {
  while (out_.find(text) == std::string::npos) {
    ASSERT_TRUE(output_.valid() && read_some()) << "waited for " << text << ", seen: " << out_;
  }
}

int PipedJob::wait() {
  while (output_.valid() || errors_.valid()) {
    if (!read_some()) return -1;
  }
  return wait_for_exit();
}

int PipedJob::wait_for_exit() const { return wait_for(pid_); }

TerminalJob::TerminalJob(const JobOptions& options, Around around) {
  int terminal = -1;
  winsize size{24, 80, 0, 0};
  pid_ = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (pid_ == 0) {
    stop_ignoring_signals();
    if (around != kNothing) act_as_shell(options, around == kScript);
    run_and_exit(options);
  }
  terminal_ = Fd(terminal);
}

void TerminalJob::type(const std::string& text) { ASSERT_EQ(write_all(terminal_.get(), text), 0); }

void TerminalJob::resize(unsigned short rows, unsigned short columns) {
  const winsize size{rows, columns, 0, 0};
  ASSERT_EQ(::ioctl(terminal_.get(), TIOCSWINSZ, &size), 0);
}

void TerminalJob::wait_for_screen(const std::string& text) {
  while (screen_.find(text) == std::string::npos) {
    pollfd ready{terminal_.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&ready, 1, kPatienceMs), 1) << "waited for " << text << ": " << screen_;
    read_into(terminal_, screen_);
    ASSERT_TRUE(terminal_.valid()) << "waited for " << text << ", seen: " << screen_;
  }
}

int TerminalJob::wait() {
  while (terminal_.valid()) {
    pollfd ready{terminal_.get(), POLLIN, 0};
    if (::poll(&ready, 1, kPatienceMs) <= 0) {
      ADD_FAILURE() << "the job does not end; seen: " << screen_;
      terminal_.reset();
      ::kill(pid_, SIGKILL);
      break;
    }
    read_into(terminal_, screen_);
  }
  return wait_for(pid_);
}

}  // namespace paramedic::supervise
