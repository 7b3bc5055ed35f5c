#pragma once
// Where a run is kept and what the job is told about it: the folder's name, the folder of the
// rings, and the variables in the job's environment. Functions without state.

#include <string>
#include <vector>

#include "base/clock.h"
#include "store/run.h"
#include "supervise/command.h"
#include "supervise/job.h"

namespace paramedic::supervise {

// "20261129-203015-train": local time and what the command runs ("train" of `python train.py`,
// of `torchrun … train.py`, of `python -m pkg.train`, of `./train.sh`).
std::string make_run_name(const std::vector<std::string>& command, int64_t wall_ns);

// A name that a person gave must be one plain folder name.
Status check_run_name(const std::string& name);

std::string absolute_path(const std::string& path);

// Everything about a new run that is known before it starts: `dir` does not exist yet. An error
// when the name was given and is not usable or is taken.
Result<store::RunInfo> plan_run(const JobOptions& options, FileSystem& files, const Clock& clock);

const char* on_crash_name(OnCrash on_crash);

// /dev/shm where there is room for rings, else `run_dir`.
std::string choose_ring_dir(const std::string& run_dir, uint32_t ring_bytes);

// `old_python_path`: PYTHONPATH as the job would have had it, "" when unset.
Environment job_environment(const JobOptions& options, const std::string& run_dir,
                            const std::string& run_id, const std::string& ring_dir,
                            const std::string& old_python_path);

}  // namespace paramedic::supervise
