#include "supervise/job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "supervise/command.h"
#include "supervise/output_times.h"
#include "supervise/run_folder.h"
#include "supervise/supervisor.h"

namespace paramedic::supervise {
namespace {

// A run folder on a file system that hangs must not keep the job from starting.
constexpr int kAgentReadyMs = 10'000;

// Our own descriptors must not take the place of a standard stream that the job is to find closed.
void reserve_standard_streams() {
  for (int fd = 0; fd <= STDERR_FILENO; ++fd) {
    if (is_open(fd)) continue;
    if (::open("/dev/null", O_RDWR | O_CLOEXEC) != fd) return;
  }
}

// One command under supervision, step by step.
class JobRun {
 public:
  explicit JobRun(const JobOptions& options) : options_(options) {}

  Result<JobOutcome> run() {
    const bool has_stdout = is_open(STDOUT_FILENO);
    const bool has_stderr = is_open(STDERR_FILENO);
    reserve_standard_streams();
    PARAMEDIC_ASSIGN(const auto info, plan_run(options_, posix_file_system(), real_clock()));
    PARAMEDIC_ASSIGN(const SignalGuard signals, SignalGuard::install());
    run_id_ = info.id;
    start_watching(info);
    open_output(has_stdout ? STDOUT_FILENO : -1, has_stderr ? STDERR_FILENO : -1);
    PARAMEDIC_ASSIGN(const Started started, start_command(command(info), signals));
    for (Channel& channel : channels_) channel.job_end.reset();
    if (started.pid == 0) return not_started(started.error_number);
    // The copiers alone hold the channels from here on, so that they end with the job.
    channels_.clear();
    Supervisor supervisor(started.pid, signals, std::move(copiers_), std::move(agent_),
                          supervisor_options());
    supervisor.run();
    return outcome_of(supervisor);
  }

 private:
  // Starts the agent and waits until it has made the run folder.
  void start_watching(const store::RunInfo& info) {
    auto agent = start_agent(options_, info);
    if (!agent.ok()) return note("nothing is captured: " + agent.status().message());
    agent_ = std::move(agent).value();
    const auto message = agent_.messages.wait_for_message(kAgentReadyMs);
    if (message && message->contains("ready")) {
      outcome_.run_dir = string_or((*message)["ready"], "dir", "");
      ring_dir_ = string_or((*message)["ready"], "ring_dir", "");
      return;
    }
    note(message ? string_or(*message, "note", "")
                 : "nothing is captured: the agent did not start");
    agent_.messages.close();
    // It may hang in a system call; then it dies when that returns. Its end is no news any more.
    ::kill(std::exchange(agent_.pid, 0), SIGKILL);
  }

  void open_output(int stdout_fd, int stderr_fd) {
    auto channels = open_channels(stdout_fd, stderr_fd);
    if (!channels.ok()) return note("the output is not logged: " + channels.status().message());
    channels_ = std::move(channels).value();
    count_output();
    for (size_t i = 0; i < channels_.size(); ++i) {
      Channel& channel = channels_[i];
      const char* name = channel.carries_stdout ? "rank-0.out" : "rank-0.err";
      const Fd log = open_log(name);
      const Fd times = log.valid() ? open_log(output_times_path(name)) : Fd();
      const OutputCounter counter = output_ == nullptr ? OutputCounter() : output_->counter(i);
      auto copier = start_copier(channel, {log.get(), times.get()}, counter);
      if (copier.ok()) {
        copiers_.push_back(std::move(copier).value());
        continue;
      }
      note("the output is not logged: " + copier.status().message());
      channel.job_end.reset();  // the job then writes to the user's stream itself
    }
  }

  // A job that goes on from a snapshot repeats output: how much had been written by then is known
  // from this count.
  void count_output() {
    if (options_.restarts == 0 || ring_dir_.empty()) return;
    auto page = OutputPage::create(ring_dir_, run_id_, channels_);
    if (!page.ok()) return note("there are no snapshots: " + page.status().message());
    output_ = std::move(page).value();
    // What outlives its parent comes to us, so that we can wait for a snapshot that goes on.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  }

  Fd open_log(const std::string& name) {
    if (outcome_.run_dir.empty()) return {};
    const std::string folder = outcome_.run_dir + "/logs";
    ::mkdir(folder.c_str(), 0700);
    const std::string path = fmt::format("{}/{}", folder, name);
    Fd log(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600));
    if (!log.valid())
      note(errno_error("the output is not logged: cannot create", path, errno).message());
    return log;
  }

  [[nodiscard]] CommandOptions command(const store::RunInfo& info) const {
    CommandOptions command;
    command.argv = options_.command;
    if (!outcome_.run_dir.empty()) {
      const char* python_path = std::getenv("PYTHONPATH");
      command.environment = job_environment(options_, outcome_.run_dir, info.id, ring_dir_,
                                            python_path == nullptr ? "" : python_path);
    }
    for (const Channel& channel : channels_) {
      if (channel.carries_stdout) command.stdout_fd = channel.job_end.get();
      if (channel.carries_stderr) command.stderr_fd = channel.job_end.get();
    }
    return command;
  }

  [[nodiscard]] SupervisorOptions supervisor_options() const {
    const bool asks = options_.on_crash == OnCrash::kAuto && options_.has_terminal;
    return {options_.stop_grace_ms,
            asks ? std::vector<std::string>{"/proc/self/exe", "attach", "--in-place"}
                 : std::vector<std::string>{},
            {output_ == nullptr ? 0 : options_.restarts, ring_dir_, run_id_}};
  }

  // The agent still writes how the run ended.
  JobOutcome not_started(int error_number) {
    const ExecFailure failure = exec_failure(options_.command.front(), error_number);
    say(failure.message);
    outcome_.exit_code = failure.exit_code;
    agent_.messages.send(
        {{"ended",
          {{"status", "failed"}, {"exit_code", outcome_.exit_code}, {"said", failure.message}}}});
    while (agent_.messages.is_open()) {
      if (!agent_.messages.wait_for_message(kAgentReadyMs)) agent_.messages.close();
    }
    return std::move(outcome_);
  }

  JobOutcome outcome_of(Supervisor& supervisor) {
    const int status = supervisor.wait_status();
    outcome_.exit_code = supervisor.was_stopped() ? kStoppedExitCode : exit_code_of(status);
    if (WIFSIGNALED(status)) outcome_.signal = WTERMSIG(status);
    outcome_.was_asked_to_end = supervisor.was_asked_to_end();
    outcome_.findings = supervisor.take_findings();
    for (std::string& text : supervisor.take_notes()) outcome_.notes.push_back(std::move(text));
    return std::move(outcome_);
  }

  void note(std::string text) {
    say(text);
    outcome_.notes.push_back(std::move(text));
  }

  const JobOptions& options_;
  JobOutcome outcome_;
  AgentProcess agent_;
  std::string run_id_;
  std::string ring_dir_;
  std::unique_ptr<OutputPage> output_;
  std::vector<Channel> channels_;
  std::vector<Copier> copiers_;
};

}  // namespace

Result<JobOutcome> run_job(const JobOptions& options) {
  if (options.command.empty()) {
    return invalid_argument("no command to run",
                            "put it after --, as in: paramedic run -- python train.py");
  }
  return JobRun(options).run();
}

}  // namespace paramedic::supervise
