#include "cli/command.h"
#include "cli/help.h"
#include "cli/text.h"

namespace paramedic::cli {
namespace {

Result<int> completions(const Arguments& arguments, Console& console) {
  const std::string& shell = arguments.positional("SHELL");
  if (shell == "bash") {
    console.out << bash_completion();
  } else if (shell == "zsh") {
    console.out << zsh_completion();
  } else {
    return invalid_argument("there are no completions for '" + clean(shell) + "'",
                            "SHELL is bash or zsh");
  }
  return 0;
}

}  // namespace

Command completions_command() {
  Command command;
  command.name = "completions";
  command.summary = "completions for bash or zsh";
  command.about =
      "Prints a script that teaches the shell to complete commands, options and names of runs.";
  command.positionals = {{"SHELL", "bash or zsh", true}};
  command.examples = {{"eval \"$(paramedic completions bash)\"", "in ~/.bashrc"},
                      {"eval \"$(paramedic completions zsh)\"", "in ~/.zshrc"}};
  command.run = completions;
  return command;
}

}  // namespace paramedic::cli
