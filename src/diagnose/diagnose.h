#pragma once
// The library's front door: logs in, verdict out. Blocking; each call is independent.

#include <string>
#include <vector>

#include "base/status.h"
#include "diagnose/resolve.h"

namespace paramedic::diagnose {

// Files, folders, globs, "-" for stdin (input.h), or one run (run.h). An error when nothing can be
// read.
Result<Diagnosis> diagnose_paths(const std::vector<std::string>& paths);

// Text that is at hand; `name` stands for the file in the evidence.
Diagnosis diagnose_text(const std::string& name, std::string text);

}  // namespace paramedic::diagnose
