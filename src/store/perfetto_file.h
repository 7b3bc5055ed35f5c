#pragma once
// A run as a timeline for https://ui.perfetto.dev (and chrome://tracing): one process a rank, with
// tracks for steps, phases and the collectives of each group; findings and repairs as instants,
// metrics as counters. One thread.

#include <string>

#include "store/run.h"

namespace paramedic::store {

// Writes the new file `path`, in the JSON of the Trace Event Format; memory does not grow with the
// run. Phases of a step are known by their length alone: they are drawn one after another.
Status write_perfetto(RunReader& reader, const std::string& path);

}  // namespace paramedic::store
