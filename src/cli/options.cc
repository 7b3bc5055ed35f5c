#include "cli/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/toml.h"

namespace paramedic::cli {
namespace {

constexpr const char* kConfigName = "paramedic.toml";

struct Unit {
  const char* name;
  double bytes;
};
// Powers of ten and of two as the standards have them; a bare letter means the power of two, as
// in ls and dd.
constexpr Unit kUnits[] = {
    {"b", 1},
    {"kb", 1e3},
    {"mb", 1e6},
    {"gb", 1e9},
    {"tb", 1e12},
    {"kib", 1024},
    {"mib", 1048576},
    {"gib", 1073741824},
    {"tib", 1099511627776},
    {"k", 1024},
    {"m", 1048576},
    {"g", 1073741824},
    {"t", 1099511627776},
};

constexpr std::pair<const char*, double> kTimeUnits[] = {
    {"s", 1}, {"m", 60}, {"min", 60}, {"h", 3600}, {"d", 86400}};

// A number and what follows it; locale-independent, all of it must be a number up to the rest.
std::optional<double> leading_number(const std::string& text, std::string& rest) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || !std::isfinite(number)) return std::nullopt;
  rest.assign(stop, end);
  rest.erase(0, rest.find_first_not_of(' '));
  std::transform(rest.begin(), rest.end(), rest.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return number;
}

std::optional<double> parse_number(OptionKind kind, const std::string& text) {
  std::string rest;
  const std::optional<double> number = leading_number(text, rest);
  if (!number) return std::nullopt;
  if (kind == OptionKind::kShare && rest == "%") return *number / 100;
  if (kind == OptionKind::kBytes) {
    for (const Unit& unit : kUnits) {
      if (rest == unit.name) return std::floor(*number * unit.bytes);
    }
  }
  if (kind == OptionKind::kSeconds) {
    for (const auto& [name, seconds] : kTimeUnits) {
      if (rest == name) return std::floor(*number * seconds);
    }
  }
  if (!rest.empty()) return std::nullopt;
  if (kind != OptionKind::kShare && *number != std::floor(*number)) return std::nullopt;
  return number;
}

std::optional<bool> parse_flag(const std::string& text) {
  if (text == "1" || text == "true" || text == "yes" || text == "on") return true;
  if (text.empty() || text == "0" || text == "false" || text == "no" || text == "off") {
    return false;
  }
  return std::nullopt;
}

std::string shown_number(OptionKind kind, double number) {
  if (kind == OptionKind::kShare) return fmt::format("{:g}%", number * 100);
  if (kind == OptionKind::kBytes) {
    if (number >= 1073741824) return fmt::format("{:g}GiB", number / 1073741824);
    if (number >= 1048576) return fmt::format("{:g}MiB", number / 1048576);
    if (number >= 1024) return fmt::format("{:g}KiB", number / 1024);
  }
  if (kind == OptionKind::kSeconds) return fmt::format("{:g}s", number);
  return fmt::format("{:g}", number);
}

const char* expected(OptionKind kind) {
  switch (kind) {
    case OptionKind::kFlag:
      return "true or false";
    case OptionKind::kShare:
      return "a share such as 1% or 0.01";
    case OptionKind::kBytes:
      return "a size such as 512MB or 2GiB";
    case OptionKind::kInteger:
      return "a whole number";
    case OptionKind::kSeconds:
      return "a time such as 90s, 30m or 1h";
    case OptionKind::kText:
    case OptionKind::kList:
      break;
  }
  return "text";
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> items;
  size_t start = 0;
  while (start <= text.size()) {
    const size_t end = std::min(text.find_first_of(",\n", start), text.size());
    std::string item = text.substr(start, end - start);
    item.erase(0, item.find_first_not_of(' '));
    item.erase(item.find_last_not_of(' ') + 1);
    if (!item.empty()) items.push_back(std::move(item));
    start = end + 1;
  }
  return items;
}

// A toml value as the text that the command line would have had; empty optional for a table.
std::optional<std::string> as_option_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) {
    std::string joined;
    for (const Json& item : value) {
      if (!joined.empty()) joined += ',';
      joined += item.is_string() ? item.get<std::string>() : to_text(item);
    }
    return joined;
  }
  if (value.is_object()) return std::nullopt;
  return to_text(value);
}

std::string folder_of_script(FileSystem& files, const std::vector<std::string>& command) {
  for (size_t i = 0; i < command.size(); i++) {
    const std::string& word = command[i];
    const bool is_script = word.ends_with(".py") || (i == 0 && word.find('/') != std::string::npos);
    if (!is_script || !files.exists(word)) continue;
    const size_t slash = word.find_last_of('/');
    return slash == std::string::npos ? "" : word.substr(0, slash + 1);
  }
  return "";
}

size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); j++) row[j] = j;
  for (size_t i = 1; i <= a.size(); i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); j++) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string environment_name(const Option& option) {
  std::string name = "PARAMEDIC_";
  for (const char c : option.name) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

std::string toml_key(const Option& option) {
  std::string key = option.name;
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

Result<Value> parse_value(const Option& option, const std::string& text, const std::string& where) {
  Value value;
  value.text = text;
  value.given = true;
  if (option.kind == OptionKind::kText) return value;
  if (option.kind == OptionKind::kList) {
    value.list = split_list(text);
    return value;
  }
  if (option.kind == OptionKind::kFlag) {
    const std::optional<bool> flag = parse_flag(text);
    if (!flag) {
      return invalid_argument(
          fmt::format("{}: '{}' is not {}", where, text, expected(option.kind)));
    }
    value.flag = *flag;
    return value;
  }
  const std::optional<double> number = parse_number(option.kind, text);
  if (!number) {
    return invalid_argument(fmt::format("{}: '{}' is not {}", where, text, expected(option.kind)));
  }
  if (*number < option.min || *number > option.max) {
    std::string hint = "at least " + shown_number(option.kind, option.min);
    if (std::isfinite(option.max)) hint += ", at most " + shown_number(option.kind, option.max);
    return invalid_argument(fmt::format("{}: {} is out of range", where, text), hint);
  }
  value.number = *number;
  return value;
}

Result<ConfigFile> load_config(FileSystem& files, const std::vector<std::string>& command) {
  ConfigFile file;
  for (const std::string& folder : {folder_of_script(files, command), std::string()}) {
    const std::string path = folder + kConfigName;
    if (!files.exists(path)) continue;
    PARAMEDIC_ASSIGN(const std::string text, files.read(path));
    PARAMEDIC_ASSIGN(file.values, parse_toml(text, path));
    file.path = path;
    return file;
  }
  return file;
}

Result<std::map<std::string, Value>> resolve(const std::vector<Option>& options,
                                             const Layers& layers) {
  std::map<std::string, Value> values;
  for (const Option& option : options) {
    Value& value = values[option.name];
    const auto found = layers.command_line.find(option.name);
    if (found != layers.command_line.end()) {
      PARAMEDIC_ASSIGN(value, parse_value(option, found->second, "--" + option.name));
      continue;
    }
    const std::string variable = environment_name(option);
    const char* text = layers.environment(variable.c_str());
    if (text != nullptr && *text != '\0') {
      PARAMEDIC_ASSIGN(value, parse_value(option, text, variable));
      continue;
    }
    const auto member = layers.file.values.find(toml_key(option));
    if (member != layers.file.values.end()) {
      const std::optional<std::string> written = as_option_text(*member);
      if (written) {
        const std::string where = layers.file.path + ": " + toml_key(option);
        PARAMEDIC_ASSIGN(value, parse_value(option, *written, where));
        continue;
      }
    }
    if (option.fallback.empty()) continue;
    PARAMEDIC_ASSIGN(value, parse_value(option, option.fallback, "default of --" + option.name));
    value.given = false;
  }
  return values;
}

Status check_config_keys(const ConfigFile& file, const std::vector<Option>& known) {
  std::vector<std::string> keys;
  keys.reserve(known.size());
  for (const Option& option : known) keys.push_back(toml_key(option));
  for (const auto& [key, value] : file.values.items()) {
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    const std::string meant = closest(key, keys);
    return invalid_argument(fmt::format("{}: unknown option '{}'", file.path, key),
                            meant.empty() ? "`paramedic run --help` lists the options"
                                          : fmt::format("did you mean {}?", meant));
  }
  return {};
}

std::string closest(const std::string& word, const std::vector<std::string>& candidates) {
  std::string best;
  // A third of the word may differ, and two letters of a short one: two that changed places.
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const bool completes = word.size() >= 3 && candidate.starts_with(word);
    const size_t distance = completes ? 1 : edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace paramedic::cli
