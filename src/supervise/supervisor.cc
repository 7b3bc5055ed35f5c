#include "supervise/supervisor.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "supervise/command.h"

namespace paramedic::supervise {
namespace {

// The last drain, the rules' last word and the sync of the run folder take well under a second on
// a healthy disk.
constexpr int64_t kAgentFinishNs = 30'000'000'000;
// The agent judges a failed job by its logs, so it hears of the end when they are whole; a terminal
// that was halted by Ctrl-S keeps it waiting no longer than this.
constexpr int64_t kLogsWholeNs = 5'000'000'000;
// How long a copy that was told to go on may stay unheard.
constexpr int kAnswerPollMs = 2;
// Between the end of its channel and the end of its process.
constexpr int kAgentExitMs = 1000;

int64_t now_ns() { return real_clock().monotonic_ns(); }

}  // namespace

Supervisor::Supervisor(pid_t job, const SignalGuard& signals, std::vector<Copier> copiers,
                       AgentProcess agent, const SupervisorOptions& options)
    : group_(job),
      job_(job),
      signals_(signals),
      stop_grace_ms_(options.stop_grace_ms),
      console_command_(options.console),
      copiers_(std::move(copiers)),
      agent_(std::move(agent)),
      restarts_(options.restarts) {
  if (terminal_.is_for_us_alone()) terminal_.lend(group_);
  send_copiers(CopierMessage::kStarted, job);
  agent_.messages.send({{"started", job}});
}

void Supervisor::run() {
  while (!is_done()) {
    wait_for_events();
    while (const auto signal = signals_.next()) on_signal(*signal);
    for (Copier& copier : copiers_) read_copier(copier);
    read_agent();
    advance_restart();
    enforce_deadlines();
  }
  tell_agent_the_end();
  await_agent();
  terminal_.take_back();
  if (console_ != 0) terminal_.put_settings_back();
}

// The agent's channel closes a moment before it can be waited for, and how it died is worth a note.
void Supervisor::await_agent() {
  if (agent_.pid == 0 || agent_is_gone_ || gave_up_) return;
  const Fd agent(static_cast<int>(::syscall(SYS_pidfd_open, agent_.pid, 0)));
  pollfd gone{agent.get(), POLLIN, 0};
  if (agent.valid() && ::poll(&gone, 1, kAgentExitMs) == 1) reap();
}

bool Supervisor::is_done() const {
  if (!has_ended_) return false;
  if (gave_up_) return true;
  return !is_copying() && !agent_.messages.is_open();
}

bool Supervisor::is_copying() const {
  return std::any_of(copiers_.begin(), copiers_.end(),
                     [](const Copier& copier) { return copier.control.valid(); });
}

void Supervisor::wait_for_events() {
  std::vector<pollfd> ready{{signals_.fd(), POLLIN, 0}};
  for (const Copier& copier : copiers_) {
    if (copier.control.valid()) ready.push_back({copier.control.get(), POLLIN, 0});
  }
  if (agent_.messages.is_open()) ready.push_back({agent_.messages.fd(), POLLIN, 0});
  ::poll(ready.data(), ready.size(), poll_timeout_ms());
}

int Supervisor::poll_timeout_ms() const {
  if (restarts_.is_ordered()) return kAnswerPollMs;
  const auto deadline = !has_ended_         ? kill_at_ns_
                        : tell_agent_at_ns_ ? tell_agent_at_ns_
                                            : give_agent_up_at_ns_;
  if (!deadline) return -1;
  return static_cast<int>(std::max<int64_t>(*deadline - now_ns(), 0) / 1'000'000) + 1;
}

void Supervisor::on_signal(int signal) {
  switch (signal) {
    case SIGCHLD:
      reap();
      return;
    case SIGWINCH:
      // A copier that stands before a terminal passes the size on first, then the signal.
      send_copiers(CopierMessage::kWindow, 0);
      return;
    case SIGTSTP:
      stop_was_asked_ = can_be_stopped();
      if (stop_was_asked_) signal_job(SIGTSTP);
      return;
    case SIGCONT:
      stop_was_asked_ = false;
      if (std::exchange(lend_again_, false) && !has_ended_) terminal_.lend(group_);
      signal_job(SIGCONT);
      return;
    default:
      if (signal != SIGUSR1 && signal != SIGUSR2) {
        end_was_asked_ = true;
        gave_up_ = has_ended_;
      }
      signal_job(signal);
  }
}

void Supervisor::reap() {
  int status = 0;
  while (true) {
    const pid_t pid = ::waitpid(-1, &status, WNOHANG | WUNTRACED);
    if (pid <= 0) return;
    if (pid == job_) {
      if (WIFSTOPPED(status)) {
        on_job_stopped(WSTOPSIG(status));
      } else {
        on_job_died(status);
      }
    } else if (pid == console_) {
      on_console_changed(status);
    } else if (pid == agent_.pid) {
      agent_is_gone_ = true;
      if (!WIFSIGNALED(status)) continue;
      note(
          fmt::format("the agent died of signal {}; the job goes on without being watched, and "
                      "`paramedic show` reads what was captured",
                      WTERMSIG(status)));
    }
  }
}

// The job waits, so nobody else reads from the terminal. Where it is not ours to give, the person
// is told of `attach` and that is all.
void Supervisor::ask(const std::string& run_dir) {
  if (console_command_.empty() || console_ != 0 || has_ended_) return;
  if (!terminal_.is_lent() && !terminal_.is_ours()) return;
  CommandOptions command;
  command.argv = console_command_;
  command.argv.push_back(run_dir);
  terminal_.keep_settings();
  const auto started = start_command(command, signals_);
  if (!started.ok() || started->pid == 0) return;
  console_ = started->pid;
  terminal_.take_back();
  terminal_.lend(console_);
}

void Supervisor::on_console_changed(int status) {
  if (WIFSTOPPED(status)) {
    // It wanted the terminal before it had it; whoever stops it by hand is not heard.
    terminal_.lend(console_);
    ::kill(-console_, SIGCONT);
    return;
  }
  console_ = 0;
  terminal_.take_back();
  terminal_.put_settings_back();
  if (has_ended_) return;
  terminal_.lend(group_);
  signal_job(SIGCONT);
}

void Supervisor::on_job_stopped(int signal) {
  if (signal == SIGSTOP) return;  // somebody stopped just the job, and will continue it
  if (signal == SIGTSTP && !stop_was_asked_ && !terminal_.is_lent()) return;
  const bool wants_terminal = signal == SIGTTIN || signal == SIGTTOU;
  if (wants_terminal && console_ != 0) return;  // it goes on when the console has ended
  if (wants_terminal && terminal_.lend(group_)) {
    signal_job(SIGCONT);
    return;
  }
  if (can_be_stopped()) {
    stop_ourselves();
  } else if (signal == SIGTSTP) {
    signal_job(SIGCONT);  // nobody could continue it: without us it would not have stopped either
  }
}

// As the shell expects of a job that stops. Returns when the shell continues us; the SIGCONT then
// lies in the signal descriptor.
void Supervisor::stop_ourselves() {
  lend_again_ = terminal_.is_lent();
  terminal_.take_back();
  // The terminal told the job's group alone. We have it blocked, and SIGCONT will discard it.
  if (lend_again_) ::kill(0, SIGTSTP);
  ::raise(SIGSTOP);
}

void Supervisor::on_job_died(int status) {
  advance_restart();  // it may have gone on and died since we last looked
  if (restarts_.is_under_way()) {
    restarts_.give_up();
    note(restarts_.reason());
    return on_job_ended(restarts_.wait_status());
  }
  if (!was_to_end() && restarts_.begin(job_, status)) return prepare_restart();
  if (!was_to_end() && !restarts_.reason().empty()) note(restarts_.reason());
  on_job_ended(status);
}

bool Supervisor::was_to_end() const { return was_stopped_ || end_was_asked_ || output_is_lost_; }

// First everything that the dead process had written is copied, so that what comes twice is known.
void Supervisor::prepare_restart() {
  const Snapshot& snapshot = restarts_.snapshot();
  job_ = snapshot.pid;
  for (const Copier& copier : copiers_) {
    if (!copier.control.valid()) continue;
    const uint64_t position =
        copier.carries_stdout ? snapshot.stdout_position : snapshot.stderr_position;
    const CopierMessage repeats{CopierMessage::kRepeats, static_cast<int64_t>(position)};
    if (::write(copier.control.get(), &repeats, sizeof repeats) == sizeof repeats) ++copiers_busy_;
  }
}

void Supervisor::advance_restart() {
  if (!restarts_.is_under_way()) return;
  if (!restarts_.is_ordered() && copiers_busy_ == 0) restarts_.order();
  if (restarts_.is_overdue()) ::kill(job_, SIGKILL);
  if (!restarts_.is_answered()) return;
  note(restarts_.note());
  agent_.messages.send({{"started", job_}});
  agent_.messages.send({{"restart", restarts_.message()}});
}

void Supervisor::send_copiers(CopierMessage::Kind kind, int64_t value) {
  const CopierMessage message{kind, value};
  for (const Copier& copier : copiers_) {
    if (copier.control.valid()) (void)!::write(copier.control.get(), &message, sizeof message);
  }
}

void Supervisor::on_job_ended(int status) {
  has_ended_ = true;
  if (console_ != 0) ::kill(-console_, SIGKILL);
  wait_status_ = status;
  tell_agent_at_ns_ = now_ns() + kLogsWholeNs;
  send_copiers(CopierMessage::kEnded, 0);
}

void Supervisor::tell_agent_the_end() {
  if (!std::exchange(tell_agent_at_ns_, std::nullopt)) return;
  give_agent_up_at_ns_ = now_ns() + kAgentFinishNs;
  const Ending ending = ending_of(wait_status_, was_stopped_);
  Json message{{"status", ending.status}};
  if (ending.exit_code) message["exit_code"] = *ending.exit_code;
  if (ending.signal) message["signal"] = *ending.signal;
  agent_.messages.send({{"ended", message}});
}

void Supervisor::read_copier(Copier& copier) {
  CopierMessage message;
  while (copier.control.valid()) {
    const ssize_t got = ::read(copier.control.get(), &message, sizeof message);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got != sizeof message || message.kind == CopierMessage::kDrained) {
      copier.control.reset();
      // Whoever is gone has nothing left to copy.
      if (got != sizeof message) copiers_busy_ = std::max(copiers_busy_ - 1, 0);
    } else {
      take(message);
    }
  }
}

void Supervisor::take(const CopierMessage& message) {
  const char* error = ::strerror(static_cast<int>(message.value));
  if (message.kind == CopierMessage::kReady) {
    copiers_busy_ = std::max(copiers_busy_ - 1, 0);
  } else if (message.kind == CopierMessage::kLogFailed) {
    note(fmt::format("the log of the job's output is given up: {}", error));
  } else if (message.kind == CopierMessage::kSinkFailed) {
    output_is_lost_ = true;
    if (message.value != EPIPE) {
      note(fmt::format("the job's output cannot be written any more: {}", error));
    }
  }
}

void Supervisor::read_agent() {
  while (auto message = agent_.messages.receive()) {
    if (message->contains("note")) note(string_or(*message, "note", ""));
    if (message->contains("paused")) ask(string_or(*message, "paused", ""));
    if (message->contains("stop") && !has_ended_ && !was_stopped_) stop_job();
    if (message->contains("finding")) {
      auto finding = rules::Finding::from_json((*message)["finding"]);
      if (finding.ok()) findings_.push_back(std::move(finding).value());
    }
  }
}

void Supervisor::stop_job() {
  was_stopped_ = true;
  kill_at_ns_ = now_ns() + int64_t{stop_grace_ms_} * 1'000'000;
  signal_job(SIGTERM);
  signal_job(SIGCONT);  // a stopped process would not act on it
}

void Supervisor::enforce_deadlines() {
  if (!has_ended_ && kill_at_ns_ && now_ns() >= *kill_at_ns_) {
    kill_at_ns_.reset();
    signal_job(SIGKILL);
  }
  if (tell_agent_at_ns_ && (!is_copying() || now_ns() >= *tell_agent_at_ns_)) tell_agent_the_end();
  if (give_agent_up_at_ns_ && now_ns() >= *give_agent_up_at_ns_) {
    give_agent_up_at_ns_.reset();
    if (!agent_.messages.is_open()) return;
    agent_.messages.close();
    ::kill(agent_.pid, SIGKILL);
    note("the agent did not finish in time; `paramedic show` reads what was captured");
  }
}

void Supervisor::signal_job(int signal) const {
  // Once the command has been waited for, its number may belong to somebody else.
  if (!has_ended_) ::kill(-group_, signal);
}

void Supervisor::note(std::string text) {
  // Agent and copiers may all meet the same full disk: the first to say so is enough.
  const bool disk_is_full = text.ends_with(::strerror(ENOSPC));
  if (!disk_is_full || !std::exchange(said_disk_is_full_, true)) say(text);
  notes_.push_back(std::move(text));
}

Ending ending_of(int wait_status, bool was_stopped) {
  Ending ending;
  if (WIFSIGNALED(wait_status)) {
    ending.signal = WTERMSIG(wait_status);
  } else {
    ending.exit_code = WEXITSTATUS(wait_status);
  }
  ending.status = was_stopped ? "stopped" : ending.exit_code == 0 ? "finished" : "failed";
  return ending;
}

int exit_code_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

}  // namespace paramedic::supervise
