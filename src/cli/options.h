#pragma once
// Options as data: each is written once and feeds parsing, help, completions and docs/cli.md.
// A value comes from the first of: the command line, PARAMEDIC_<OPTION> in the environment,
// paramedic.toml beside the script or in the current folder, the default.

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/status.h"

namespace paramedic::cli {

enum class OptionKind : uint8_t {
  kFlag,     // given or not
  kText,     // as it is
  kList,     // comma-separated, may be repeated
  kShare,    // "1%" or "0.01"
  kBytes,    // "512MB", "2GiB", "4096"
  kInteger,  // whole number
  kSeconds,  // "90", "30m", "1h"
};

struct Option {
  std::string name;  // "max-disk": --max-disk, PARAMEDIC_MAX_DISK, max_disk in paramedic.toml
  OptionKind kind = OptionKind::kText;
  std::string value;  // what the help calls its value: "SIZE"; "" for a flag
  std::string help;   // one sentence, without the default and the range
  std::string fallback = {};
  double min = 0;  // of kShare, kBytes, kInteger, kSeconds
  double max = std::numeric_limits<double>::infinity();
};

std::string environment_name(const Option& option);
std::string toml_key(const Option& option);

struct Value {
  bool flag = false;
  double number = 0;
  std::string text;
  std::vector<std::string> list;
  bool given = false;  // not the default
};

// `where` names the source in the message: "--max-disk", "PARAMEDIC_MAX_DISK", "FILE: max_disk".
Result<Value> parse_value(const Option& option, const std::string& text, const std::string& where);

// paramedic.toml, if there is one. `path` is "" when there is none.
struct ConfigFile {
  std::string path;
  Json values = Json::object();
};
// Beside the script of `command` (its first argument that is a .py file, or the program itself
// when it is given by a path), else in the current folder.
Result<ConfigFile> load_config(FileSystem& files, const std::vector<std::string>& command);

using Environment = std::function<const char*(const char*)>;

struct Layers {
  std::map<std::string, std::string> command_line;  // option name → text; "true" for a flag
  Environment environment;
  ConfigFile file;
};

// The value of every option of `options`, validated. A table (`[capture]`) under an option's key
// is left to the command that understands it.
Result<std::map<std::string, Value>> resolve(const std::vector<Option>& options,
                                             const Layers& layers);

// An error for the first key of `file` that no option of `known` is called by.
Status check_config_keys(const ConfigFile& file, const std::vector<Option>& known);

// The one of `candidates` that `word` is most likely a misspelling of; "" when none is close.
std::string closest(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace paramedic::cli
