#pragma once
// The agent in a process of its own beside the supervisor, so that whatever happens to it, the
// job's signals, output and exit code are not touched (docs/design/0006).

#include <memory>

#include "supervise/agent.h"
#include "supervise/job.h"
#include "supervise/messages.h"

namespace paramedic::supervise {

// Messages, each one JSON object with one member:
//   from the agent   ready {dir, ring_dir} · note "…" · stop "rule id" · finding {…} (at the end)
//   to the agent     started PID · restart {rank, pid, step, signal, took_ms, snapshot_ns} · ended
//   {status, exit_code, signal, said}
struct AgentProcess {
  pid_t pid = 0;
  MessageSocket messages{Fd()};
};

// Forks the agent of the run `info`. While the caller is the only thread.
Result<AgentProcess> start_agent(const JobOptions& options, const store::RunInfo& info);

// One line about a finding, as it appears on stderr while the job runs.
std::string finding_line(const rules::Finding& finding, const std::string& run_dir, bool color);

// Writes `paramedic: TEXT` to stderr in one piece, unless stderr is halted.
void say(const std::string& text);

}  // namespace paramedic::supervise
