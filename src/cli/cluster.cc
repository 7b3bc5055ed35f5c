#include "cli/cluster.h"

namespace paramedic::cli {

Command cluster_command() {
  Command command;
  command.name = "cluster";
  command.summary = "what can be wrong between the ranks and hosts of a job";
  command.about =
      "Looks at what lies between the ranks of a distributed job, before it starts and after it "
      "failed: their configuration, their network, their differences (docs/cluster.md). While a "
      "job runs, `paramedic run` does all of this by itself.";
  command.subcommands = {cluster_lint_command(), cluster_env_diff_command(),
                         cluster_probe_command(), cluster_collectives_command()};
  return command;
}

}  // namespace paramedic::cli
