#pragma once
// Why a job failed whose end is known: the exit code or the signal says what its logs may not. Of a
// run of Paramedic's own both lie in its folder. Blocking; each call is independent.

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "diagnose/resolve.h"

namespace paramedic::diagnose {

// How the job's process ended, as whoever waited for it knows it.
struct Ending {
  std::optional<int> exit_code;
  std::optional<int> signal;
  std::string said = {};  // what is known beside the logs: "trian.py: command not found"
};

// A job that ended with code 0 has not failed, whatever its logs say; one that ended otherwise
// has, whatever they say. `paths` as in input.h; that they hold no log is no error here.
Result<Diagnosis> diagnose_ended(const std::vector<std::string>& paths, const Ending& ending);

// Whether `path` is the folder of a run.
bool is_run_folder(const std::string& path);
// The logs of the run with the ending that its run.json tells.
Result<Diagnosis> diagnose_run(const std::string& folder);

}  // namespace paramedic::diagnose
