#pragma once
// The other end of the control socket: for programs that read a run. No state; any thread.

#include <string>

#include "base/status.h"

namespace paramedic::supervise {

// Has the agent of the run in `run_dir` make everything readable that was captured up to now, and
// waits for that at most `timeout_ms`. An error means that nobody did, as of a run that is over
// (kNotFound): what is on disk is all that there is to read.
Status request_flush(const std::string& run_dir, int timeout_ms);

}  // namespace paramedic::supervise
