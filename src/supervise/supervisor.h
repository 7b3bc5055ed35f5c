#pragma once
// Stands in for the job towards whoever started us: hands signals on, lends the terminal, stops
// and goes on when the job does, and knows how the job ended. Main thread, the only one.

#include <optional>
#include <string>
#include <vector>

#include "supervise/agent_process.h"
#include "supervise/copier.h"
#include "supervise/restarts.h"
#include "supervise/signals.h"
#include "supervise/terminal.h"

namespace paramedic::supervise {

struct SupervisorOptions {
  int stop_grace_ms = 0;
  // The program that asks about a crash on our terminal, with the run's folder as its last
  // argument; empty: nobody is asked there.
  std::vector<std::string> console = {};
  RestartOptions restarts;
};

class Supervisor {
 public:
  // `job`: the started command, leader of its own process group.
  Supervisor(pid_t job, const SignalGuard& signals, std::vector<Copier> copiers, AgentProcess agent,
             const SupervisorOptions& options);

  // Until the command has ended, all that it wrote was copied, and the agent has finished. Once
  // the command has ended any of SIGINT, SIGTERM, SIGHUP, SIGQUIT ends the waiting.
  void run();

  // waitpid's status of the command.
  [[nodiscard]] int wait_status() const { return wait_status_; }
  // Whether a rule stopped it.
  [[nodiscard]] bool was_stopped() const { return was_stopped_; }
  // Whether a signal to us asked for the end.
  [[nodiscard]] bool was_asked_to_end() const { return end_was_asked_; }
  [[nodiscard]] std::vector<rules::Finding> take_findings() { return std::move(findings_); }
  [[nodiscard]] std::vector<std::string> take_notes() { return std::move(notes_); }

 private:
  void wait_for_events();
  [[nodiscard]] int poll_timeout_ms() const;
  [[nodiscard]] bool is_done() const;

  void on_signal(int signal);
  void reap();
  void on_job_stopped(int signal);
  void stop_ourselves();
  void on_job_died(int status);
  [[nodiscard]] bool was_to_end() const;
  void on_job_ended(int status);
  void tell_agent_the_end();
  [[nodiscard]] bool is_copying() const;
  void send_copiers(CopierMessage::Kind kind, int64_t value);

  void prepare_restart();
  void advance_restart();

  void ask(const std::string& run_dir);
  void on_console_changed(int status);

  void read_copier(Copier& copier);
  void take(const CopierMessage& message);
  void read_agent();
  void stop_job();
  void enforce_deadlines();
  void signal_job(int signal) const;
  void await_agent();
  void note(std::string text);

  const pid_t group_;
  pid_t job_;          // another one of the group after a restart
  pid_t console_ = 0;  // that asks about a crash; has the terminal meanwhile
  const SignalGuard& signals_;
  const int stop_grace_ms_;
  const std::vector<std::string> console_command_;
  Terminal terminal_;
  std::vector<Copier> copiers_;
  AgentProcess agent_;
  Restarts restarts_;
  int copiers_busy_ = 0;  // that still copy what was written before a restart
  bool has_ended_ = false;
  bool gave_up_ = false;         // a signal ended the waiting
  bool stop_was_asked_ = false;  // by SIGTSTP to us
  bool lend_again_ = false;      // the job had the terminal when we were stopped
  bool was_stopped_ = false;
  bool end_was_asked_ = false;   // by a signal to us
  bool output_is_lost_ = false;  // the user's stream takes no more
  int wait_status_ = 0;
  std::optional<int64_t> kill_at_ns_;
  std::optional<int64_t> tell_agent_at_ns_;
  std::optional<int64_t> give_agent_up_at_ns_;
  std::vector<rules::Finding> findings_;
  std::vector<std::string> notes_;
  bool said_disk_is_full_ = false;
  bool agent_is_gone_ = false;
};

// How the job ended, in the words of run.json.
Ending ending_of(int wait_status, bool was_stopped);
// What a shell makes of it: the exit code, or 128+N after signal N.
int exit_code_of(int wait_status);

}  // namespace paramedic::supervise
