#pragma once
// What `paramedic run` says on stderr once the job has ended.

#include <optional>
#include <string>
#include <vector>

#include "cli/text.h"
#include "store/run.h"
#include "supervise/job.h"

namespace paramedic::cli {

// `info` is empty where no run folder could be read back. Notes were said as they came (run_job).
std::string render_summary(const supervise::JobOutcome& outcome,
                           const std::optional<store::RunInfo>& info, const Paint& paint);

}  // namespace paramedic::cli
