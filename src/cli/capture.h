#pragma once
// The capture plan that `paramedic run` hands to the probe: from --capture, PARAMEDIC_CAPTURE or
// paramedic.toml. Checked here, so that a mistake stops the command and not a tap in the job.

#include <string>

#include "cli/command.h"

namespace paramedic::cli {

// The text of the plan; "" for the default plan. The option `capture` is a file or the lines
// themselves. In paramedic.toml a table is a collection:
//   [capture.gradients]
//   kind = "gradient"
//   interval = 1
Result<std::string> capture_plan(const Arguments& arguments, FileSystem& files);

}  // namespace paramedic::cli
