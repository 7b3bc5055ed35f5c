#pragma once
// The options of a watched job, shared by `run` and `agent`.

#include <vector>

#include "cli/command.h"
#include "supervise/job.h"

namespace paramedic::cli {

std::vector<Option> job_option_list();

// Validated: the capture plan parses, the rules of --on exist, the installation is complete.
Result<supervise::JobOptions> job_options(const Arguments& arguments, const Console& console);

}  // namespace paramedic::cli
