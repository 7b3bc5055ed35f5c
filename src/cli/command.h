#pragma once
// What a command is: a value made by the one function of its file (show.cc → show_command), named
// in list.inc. Parsing, help, completions and docs/cli.md are made from these values.

#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/options.h"

namespace paramedic::cli {

// Where a command's text goes. Tests put string streams in its place.
struct Console {
  std::ostream& out;
  std::ostream& err;
  Environment environment;
  int width = 80;
  int rows = 24;
  bool out_is_terminal = false;
  bool color_out = false;
  bool color_err = false;
};

// The arguments of one call, parsed and validated. Asking for a name that the command does not
// declare is a programming error.
class Arguments {
 public:
  Arguments(std::map<std::string, Value> options,
            std::map<std::string, std::vector<std::string>> positionals,
            std::vector<std::string> command, ConfigFile config)
      : options_(std::move(options)),
        positionals_(std::move(positionals)),
        command_(std::move(command)),
        config_(std::move(config)) {}

  [[nodiscard]] const Value& option(const std::string& name) const;
  [[nodiscard]] bool flag(const std::string& name) const { return option(name).flag; }
  [[nodiscard]] const std::string& text(const std::string& name) const { return option(name).text; }
  [[nodiscard]] double number(const std::string& name) const { return option(name).number; }
  // The first word of it, or "".
  [[nodiscard]] const std::string& positional(const std::string& name) const;
  [[nodiscard]] const std::vector<std::string>& positionals(const std::string& name) const;
  // Of a command that takes one: what stands after `--`.
  [[nodiscard]] const std::vector<std::string>& command() const { return command_; }
  [[nodiscard]] const ConfigFile& config() const { return config_; }

 private:
  std::map<std::string, Value> options_;
  std::map<std::string, std::vector<std::string>> positionals_;
  std::vector<std::string> command_;
  ConfigFile config_;
};

struct Positional {
  std::string name;
  std::string help;
  bool required = false;
  bool many = false;  // takes all words that follow
};

struct Example {
  std::string command;
  std::string what;
};

struct Command {
  std::string name;
  std::string summary;  // one line, for the list
  std::string about;    // paragraphs for its own help; separated by an empty line
  std::vector<Option> options = {};
  std::vector<Positional> positionals = {};
  bool takes_command = false;  // ends with `-- COMMAND…`
  std::vector<Example> examples = {};
  bool hidden = false;  // for Paramedic's own parts: not in the list
  std::vector<Command> subcommands = {};
  // The exit code. Empty for a command that only has subcommands.
  Result<int> (*run)(const Arguments&, Console&) = nullptr;
};

// In the order of list.inc, which is the order of the help.
const std::vector<Command>& commands();

// Options that several commands share, so that they read the same everywhere.
Option dir_option();
Option json_option();

}  // namespace paramedic::cli
