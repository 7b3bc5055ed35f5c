#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "supervise/agent_process.h"
#include "supervise/control_server.h"
#include "supervise/crash_desk.h"
#include "supervise/job.h"
#include "supervise/process.h"
#include "supervise/run_folder.h"

namespace paramedic::supervise {
namespace {

constexpr int kTickMs = 100;

void watch_until_gone(const JobOptions& options, Agent& agent, pid_t pid, uint64_t started) {
  ControlServer control(agent.info().dir, [&] { return agent.flush_now(); });
  CrashDesk desk(options, agent, control, say);
  agent.watch(pid);
  // The start time tells a process that got the same number later.
  while (is_running(pid) && start_ticks(pid) == started) {
    agent.tick();
    pollfd ready{control.fd(), POLLIN, 0};
    ::poll(&ready, 1, kTickMs);
    control.serve();
    desk.tick();
  }
}

}  // namespace

Status attend(const AgentOptions& options) {
  if (options.pid <= 0 || !is_running(options.pid)) {
    return invalid_argument(fmt::format("there is no process {} to watch", options.pid));
  }
  // The terminal's Ctrl-C is for the script; whoever read our messages may be gone.
  ::setsid();
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  const uint64_t started = start_ticks(options.pid);
  PARAMEDIC_ASSIGN(const auto info, plan_run(options.job, posix_file_system(), real_clock()));
  std::string run_dir;
  PARAMEDIC_ASSIGN(const auto agent,
                   Agent::create(info, options.job.disk_bytes_max, options.job.name.empty(),
                                 {.finding =
                                      [&](const rules::Finding& finding) {
                                        if (finding.severity < rules::Severity::kWarning) return;
                                        say(finding_line(finding, run_dir, options.job.color));
                                      },
                                  .note = [](const std::string& text) { say(text); }}));
  run_dir = agent->info().dir;
  if (options.ready_fd >= 0) {
    const Json ready{
        {"run_dir", run_dir}, {"run_id", agent->info().id}, {"ring_dir", agent->info().ring_dir}};
    if (const int error_number = write_all(options.ready_fd, to_text(ready) + "\n")) {
      return errno_error("cannot tell that the agent is ready", "through ready_fd", error_number);
    }
  }
  watch_until_gone(options.job, *agent, options.pid, started);
  agent->finish({"finished", std::nullopt, std::nullopt});
  return {};
}

}  // namespace paramedic::supervise
