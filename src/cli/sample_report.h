#pragma once
// For tests: fixed reports, as build_report makes them.

#include "cli/report.h"

namespace paramedic::cli {

Report healthy_report();
// A deep sigmoid network whose gradient vanishes, and a learning rate that is too low.
Report vanishing_report();
// NaN from step 93 on; the job failed.
Report nan_report();
// Nothing was seen; hostile names.
Report empty_report();
// A run that waits for its second repair.
Report paused_report();
// A job that ended with an exception, and what was made of it.
Report failed_report();
// One whose launcher says that a rank failed, in an exception of many lines.
Report launcher_report();

}  // namespace paramedic::cli
