#include "cli/command.h"
#include "cli/job_options.h"
#include "supervise/job.h"

namespace paramedic::cli {
namespace {

Result<int> agent(const Arguments& arguments, Console& console) {
  if (!arguments.option("pid").given) {
    return invalid_argument("agent: --pid is missing",
                            "paramedic.watch() starts the agent; you need not");
  }
  supervise::AgentOptions options;
  options.pid = static_cast<int>(arguments.number("pid"));
  if (arguments.option("ready-fd").given) {
    options.ready_fd = static_cast<int>(arguments.number("ready-fd"));
  }
  PARAMEDIC_ASSIGN(options.job, job_options(arguments, console));
  PARAMEDIC_TRY(supervise::attend(options));
  return 0;
}

}  // namespace

Command agent_command() {
  Command command;
  command.name = "agent";
  command.summary = "the agent beside a script that called paramedic.watch()";
  command.about =
      "Watches the process PID, which runs already, until it ends. COMMAND is what to show as its "
      "command. Writes one JSON line to the file descriptor FD when it is ready.";
  command.options = job_option_list();
  command.options.push_back({.name = "pid",
                             .kind = OptionKind::kInteger,
                             .value = "PID",
                             .help = "the process to watch",
                             .min = 1,
                             .max = 1 << 22});
  command.options.push_back({.name = "ready-fd",
                             .kind = OptionKind::kInteger,
                             .value = "FD",
                             .help = "where to say that the agent is ready",
                             .max = 1 << 20});
  command.takes_command = true;
  command.hidden = true;
  command.run = agent;
  return command;
}

}  // namespace paramedic::cli
