#include "supervise/agent_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <optional>
#include <utility>

#include "base/path.h"
#include "supervise/control_server.h"
#include "supervise/crash_desk.h"
#include "supervise/process.h"
#include "supervise/snapshot_page.h"

namespace paramedic::supervise {
namespace {

constexpr int kTickMs = 100;
// Nobody waits longer than this for a terminal that was halted by Ctrl-S.
constexpr int kSayWaitMs = 200;

store::RepairRow restart_row(const Json& restart) {
  store::RepairRow row;
  row.time_ns = real_clock().wall_ns();
  row.rank = static_cast<int32_t>(integer_or(restart, "rank", 0));
  row.pid = static_cast<int32_t>(integer_or(restart, "pid", 0));
  row.step = integer_or(restart, "step", -1);
  row.exception = string_or(restart, "signal", "");
  row.message = "the process died of a signal";
  row.kind = "restart";
  row.by = "policy";
  row.took_ms = number_or(restart, "took_ms", 0);
  row.detail = to_text({{"snapshot_ns", integer_or(restart, "snapshot_ns", 0)}});
  return row;
}

class AgentLoop {
 public:
  AgentLoop(const JobOptions& options, MessageSocket messages)
      : options_(options), messages_(std::move(messages)) {}

  void run(const store::RunInfo& info) {
    auto agent = Agent::create(
        info, options_.disk_bytes_max, options_.name.empty(),
        {.finding = [this](const rules::Finding& finding) { on_finding(finding); },
         .note = [this](const std::string& text) { messages_.send({{"note", text}}); }});
    if (!agent.ok()) {
      messages_.send({{"note", "nothing is captured: " + agent.status().message()}});
      return;
    }
    agent_ = std::move(agent).value();
    start_courier();
    messages_.send(
        {{"ready", {{"dir", agent_->info().dir}, {"ring_dir", agent_->info().ring_dir}}}});
    serve();
    agent_->finish(ending_);
    if (courier_) courier_->finish();
    // A supervisor that is gone has left them.
    if (!messages_.is_open()) remove_snapshots(agent_->info().ring_dir, agent_->info().id);
    for (const auto& finding : agent_->findings()) {
      messages_.send({{"finding", finding.to_json()}});
    }
  }

 private:
  void start_courier() {
    if (options_.collector.address.empty()) return;
    const store::RunInfo& info = agent_->info();
    courier_.emplace(
        options_.collector, std::string(folder_of(info.dir)),
        CourierProcess::Callbacks{
            .finding = [this](const std::string& key,
                              const rules::Finding& found) { agent_->on_finding(key, found); },
            .note = [this](const std::string& text) { messages_.send({{"note", text}}); }});
    agent_->tell_looks();
    courier_->start(info.dir, info.id, info.host);
  }

  void serve_courier() {
    if (!courier_) return;
    courier_->serve();
    const auto& ranks = agent_->info().ranks;
    if (std::any_of(ranks.begin(), ranks.end(), [](const auto& rank) { return rank.rank == 0; })) {
      courier_->start_collector(agent_->info().dir);
    }
  }

  // Until the job is over.
  void serve() {
    ControlServer control(agent_->info().dir, [this] { return agent_->flush_now(); });
    CrashDesk desk(options_, *agent_, control, say,
                   [this] { messages_.send({{"paused", agent_->info().dir}}); });
    while (!is_over()) {
      agent_->tick();
      pollfd ready[] = {{messages_.fd(), POLLIN, 0},
                        {control.fd(), POLLIN, 0},
                        {courier_ ? courier_->fd() : -1, POLLIN, 0}};
      ::poll(ready, std::size(ready), kTickMs);
      control.serve();
      desk.tick();
      serve_courier();
      while (auto message = messages_.receive()) take(*message);
    }
    // A process may have told that it goes on, and ended, since the last look: who repaired it is
    // still waiting for that.
    control.serve();
    desk.tick();
  }

  // Without a supervisor nobody will tell how the job ended, only that it has.
  [[nodiscard]] bool is_over() const {
    if (has_ended_) return true;
    return !messages_.is_open() && (root_pid_ == 0 || start_ticks(root_pid_) != root_start_ticks_ ||
                                    !is_running(root_pid_));
  }

  void take(const Json& message) {
    if (message.contains("started")) {
      root_pid_ = static_cast<pid_t>(integer_or(message, "started", 0));
      root_start_ticks_ = start_ticks(root_pid_);
      agent_->watch(root_pid_);
    } else if (message.contains("restart")) {
      agent_->add_repair(restart_row(message["restart"]));
    } else if (message.contains("ended")) {
      const Json& ended = message["ended"];
      has_ended_ = true;
      ending_.status = string_or(ended, "status", "lost");
      ending_.said = string_or(ended, "said", "");
      if (ended.contains("exit_code")) ending_.exit_code = integer_or(ended, "exit_code", 0);
      if (ended.contains("signal")) ending_.signal = integer_or(ended, "signal", 0);
    }
  }

  void on_finding(const rules::Finding& finding) {
    if (finding.severity >= rules::Severity::kWarning) {
      say(finding_line(finding, agent_->info().dir, options_.color));
    }
    const auto& rules = options_.stop_on;
    if (std::find(rules.begin(), rules.end(), finding.id) != rules.end()) {
      messages_.send({{"stop", finding.id}});
    }
  }

  const JobOptions& options_;
  MessageSocket messages_;
  std::unique_ptr<Agent> agent_;
  std::optional<CourierProcess> courier_;
  pid_t root_pid_ = 0;
  uint64_t root_start_ticks_ = 0;
  bool has_ended_ = false;
  Ending ending_{"lost", std::nullopt, std::nullopt};
};

}  // namespace

Result<AgentProcess> start_agent(const JobOptions& options, const store::RunInfo& info) {
  PARAMEDIC_ASSIGN(FdPair sockets, make_socket_pair());
  const pid_t pid = ::fork();
  if (pid < 0) return errno_error("cannot start", "the agent", errno);
  if (pid == 0) {
    // Out of reach of what is sent to our process group and of the terminal's signals.
    ::setsid();
    ::prctl(PR_SET_NAME, "paramedic-agent");
    sockets.first.reset();
    // Whoever reads the job's output to its end must not have to wait for the agent as well.
    if (const Fd nowhere(::open("/dev/null", O_RDWR | O_CLOEXEC)); nowhere.valid()) {
      ::dup2(nowhere.get(), STDIN_FILENO);
      ::dup2(nowhere.get(), STDOUT_FILENO);
    }
    AgentLoop(options, MessageSocket(std::move(sockets.second))).run(info);
    ::_exit(0);
  }
  return AgentProcess{pid, MessageSocket(std::move(sockets.first))};
}

std::string finding_line(const rules::Finding& finding, const std::string& run_dir, bool color) {
  const bool is_error = finding.severity == rules::Severity::kError;
  const char* paint = !color ? "" : is_error ? "\033[31m" : "\033[33m";
  const std::string at = finding.step ? fmt::format(" at step {}", *finding.step) : "";
  return fmt::format("{}{} {}{}{}: {} (show: paramedic show {})", paint,
                     rules::severity_name(finding.severity), finding.id, color ? "\033[0m" : "", at,
                     finding.message, base_name(run_dir));
}

void say(const std::string& text) {
  pollfd ready{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&ready, 1, kSayWaitMs) != 1) return;
  (void)write_all(STDERR_FILENO, fmt::format("paramedic: {}\n", text));
}

}  // namespace paramedic::supervise
