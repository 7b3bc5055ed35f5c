#pragma once
// The whole program but `main`: finds the command, parses its arguments, runs it, and turns a
// Status into a message and an exit code.

#include <string>
#include <vector>

#include "cli/command.h"

namespace paramedic::cli {

// `words` are argv without the program's name. Answers the exit code.
int run_program(const std::vector<std::string>& words, Console& console);

// The console of this process: widths and colours from the terminal, NO_COLOR and TERM.
Console process_console();

// Where the parts of an installation are: python/ and lib/libparamedic_probe.so lie in `home`,
// which is PARAMEDIC_HOME or the folder above that of this executable.
struct Home {
  std::string python_dir;
  std::string probe_path;
};
Result<Home> find_home(FileSystem& files, const Environment& environment);

}  // namespace paramedic::cli
