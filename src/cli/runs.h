#pragma once
// Finds and opens runs by what a person types: nothing (the newest), a name, or a path.

#include <memory>
#include <string>

#include "cli/command.h"
#include "store/run.h"

namespace paramedic::cli {

// The folder of the run. `run` is "" for the newest in `dir`, a name in `dir`, or a path.
Result<std::string> find_run(FileSystem& files, const std::string& dir, const std::string& run);

// What a person means who may give logs or a run: the run `word` in `dir` where there is no such
// file or folder, else `word` itself.
std::string run_or_path(FileSystem& files, const std::string& dir, const std::string& word);

// Opens a run for reading; what a dead agent left in its rings is stored first.
Result<std::unique_ptr<store::RunReader>> open_run(const std::string& folder, Console& console);

// The RUN argument and --dir, as several commands take them.
Result<std::unique_ptr<store::RunReader>> open_run(const Arguments& arguments, Console& console);

}  // namespace paramedic::cli
