#pragma once
// Help, completions and docs/cli.md, all made from the Command values.

#include <string>
#include <vector>

#include "cli/command.h"

namespace paramedic::cli {

constexpr int kHelpWidth = 80;

// `paramedic --help`.
std::string program_help();
// `paramedic NAME --help`; `path` is the words before its options, such as "rules list".
std::string command_help(const Command& command, const std::string& path);
// docs/cli.md as it must stand in the repository.
std::string markdown();
// The completion script for bash or zsh.
std::string bash_completion();
std::string zsh_completion();

}  // namespace paramedic::cli
