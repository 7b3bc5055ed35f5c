#pragma once
// From text to settings: what `env`, `export -p`, `srun -l env`, a copy of /proc/PID/environ or
// JSON says of the processes of a job; and from a start script to its assignments. Pure.

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cluster/lint/setting.h"

namespace paramedic::cluster {

// The processes, and in JSON the hosts too, that `text` tells of; `source` names them in messages.
// Values of variables that may not be shown are kept as digests.
Result<JobSettings> read_settings(std::string_view text, const std::string& source);

// "NAME=VALUE" words, each ended by NUL, as /proc/PID/environ has them. `salt` makes the digests
// of one run worthless to who reads another.
void add_variables(std::string_view environ_bytes, uint32_t salt, Setting& setting);

// Names a setting after its rank or task, where it has one.
void name_setting(Setting& setting);

// The `NAME=VALUE` of a shell script's lines, of names that may be shown; options of launchers
// (`--master-port 29500`) count as their variables.
std::vector<Assignment> read_assignments(std::string_view script);

}  // namespace paramedic::cluster
