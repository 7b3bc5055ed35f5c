#pragma once
// The subcommands of `paramedic cluster`, each in a file of its own.

#include <string>
#include <vector>

#include "cli/command.h"
#include "cluster/lint/setting.h"

namespace paramedic::cli {

Command cluster_lint_command();
Command cluster_env_diff_command();
Command cluster_probe_command();
Command cluster_collectives_command();

// What `words` name: files, `-` for standard input; the environment of this process where there
// are none. Facts of this host are added where one of the processes runs on it.
Result<cluster::JobSettings> read_job_settings(const std::vector<std::string>& words);

}  // namespace paramedic::cli
