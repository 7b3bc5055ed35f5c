#include "cluster/lint/read_setting.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <utility>

#include "base/crc32c.h"
#include "base/lines.h"
#include "cluster/lint/tf_config.h"

namespace paramedic::cluster {
namespace {

constexpr size_t kProcessesMax = 100'000;
constexpr size_t kVariablesMax = 4096;
constexpr size_t kValueBytesMax = 16U << 10;
constexpr size_t kAssignmentsMax = 200;

bool is_name_char(char c, bool first) {
  const bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
  return letter || (!first && c >= '0' && c <= '9');
}

// The length of the variable's name that `text` begins with; 0 when it begins with none.
size_t name_length(std::string_view text) {
  size_t at = 0;
  while (at < text.size() && is_name_char(text[at], at == 0)) ++at;
  return at;
}

void add_variable(std::string_view name, std::string_view value, uint32_t salt, Setting& setting) {
  if (setting.variables.size() + setting.digests.size() >= kVariablesMax) return;
  if (may_show(name)) {
    setting.variables[std::string(name)] = std::string(value.substr(0, kValueBytesMax));
  } else {
    setting.digests[std::string(name)] =
        fmt::format("{:08x}", crc32c(value.data(), value.size(), salt));
  }
}

std::string unquoted(std::string_view value) {
  if (value.size() >= 2 && (value.front() == '"' || value.front() == '\'') &&
      value.back() == value.front()) {
    value = value.substr(1, value.size() - 2);
  }
  std::string plain;
  for (size_t i = 0; i < value.size(); ++i) {
    if (value[i] == '\\' && i + 1 < value.size()) ++i;
    plain += value[i];
  }
  return plain;
}

// Takes a label such as "12: " (srun -l) from the front of a line.
std::string take_label(std::string_view& line) {
  size_t at = line.find_first_not_of(' ');
  const size_t start = at;
  while (at != std::string_view::npos && at < line.size() && line[at] >= '0' && line[at] <= '9') {
    ++at;
  }
  if (at == std::string_view::npos || at == start || !line.substr(at).starts_with(": ")) return "";
  std::string label(line.substr(start, at - start));
  line.remove_prefix(at + 2);
  return label;
}

// `env` and `export -p`: a line that begins with no name goes on with the value before it.
Result<std::vector<Setting>> read_lines(std::string_view text, const std::string& source) {
  std::map<std::string, std::vector<std::pair<std::string, std::string>>> by_label;
  while (!text.empty()) {
    std::string_view line = take_line(text);
    auto& entries = by_label[take_label(line)];
    bool is_quoted = false;
    for (const std::string_view prefix : {"declare -x ", "export "}) {
      if (!line.starts_with(prefix)) continue;
      line.remove_prefix(prefix.size());
      is_quoted = true;
    }
    const size_t length = name_length(line);
    if (length > 0 && line.substr(length).starts_with('=')) {
      const std::string_view value = line.substr(length + 1);
      if (entries.size() >= kVariablesMax) continue;
      entries.emplace_back(line.substr(0, length),
                           is_quoted ? unquoted(value) : std::string(value));
    } else if (!entries.empty() && entries.back().second.size() < kValueBytesMax) {
      entries.back().second.append("\n").append(line);
    }
  }
  std::vector<Setting> settings;
  for (const auto& [label, entries] : by_label) {
    if (entries.empty() || settings.size() >= kProcessesMax) continue;
    Setting setting;
    setting.name = label.empty() ? source : fmt::format("{}, process {}", source, label);
    for (const auto& [name, value] : entries) add_variable(name, value, 0, setting);
    settings.push_back(std::move(setting));
  }
  if (settings.empty()) {
    return invalid_argument(fmt::format("{}: no line NAME=VALUE in it", source),
                            "the output of `env`, JSON, or a copy of /proc/PID/environ");
  }
  return settings;
}

void read_object(const Json& json, const std::string& source, JobSettings& job) {
  std::vector<Setting>& settings = job.processes;
  if (settings.size() >= kProcessesMax || !json.is_object()) return;
  if (json.contains("interfaces")) {
    job.hosts.push_back(HostFacts::from_json(json));
    return;
  }
  if (json.contains("variables")) {
    settings.push_back(Setting::from_json(json));
    if (settings.back().name.empty()) settings.back().name = source;
    return;
  }
  Setting setting;
  setting.name = source;
  for (const auto& [name, value] : json.items()) {
    if (value.is_object()) {
      read_object(value, name, job);
    } else if (value.is_array()) {
      for (const Json& item : value) read_object(item, source, job);
    } else if (!value.is_null()) {
      const std::string text = value.is_string() ? value.get<std::string>() : to_text(value);
      add_variable(name, text, 0, setting);
    }
  }
  if (!setting.variables.empty()) settings.push_back(std::move(setting));
}

struct OptionVariable {
  std::string_view option;
  std::string_view variable;
};
constexpr std::array kOptionVariables = {
    OptionVariable{"--master-port", "MASTER_PORT"}, OptionVariable{"--master_port", "MASTER_PORT"},
    OptionVariable{"--master-addr", "MASTER_ADDR"}, OptionVariable{"--master_addr", "MASTER_ADDR"},
    OptionVariable{"--node-rank", "NODE_RANK"},     OptionVariable{"--node_rank", "NODE_RANK"}};

// The word at the front of a shell's line, up to a blank or the end of a command outside of
// quotes.
size_t word_length(std::string_view text) {
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == ' ' || c == '\t' || c == ';' || c == '&' || c == '|' || c == ')') {
      return i;
    }
  }
  return text.size();
}

void read_script_line(std::string_view line, int32_t number, std::vector<Assignment>& found) {
  for (size_t at = 0; at < line.size() && found.size() < kAssignmentsMax;) {
    const std::string_view rest = line.substr(at);
    if (rest.front() == '#' && (at == 0 || line[at - 1] == ' ')) return;
    const size_t length = name_length(rest);
    if (length > 0 && rest.substr(length).starts_with('=')) {
      const std::string_view value = rest.substr(length + 1, word_length(rest.substr(length + 1)));
      const std::string_view name = rest.substr(0, length);
      if (may_show(name)) found.push_back({number, std::string(name), unquoted(value)});
      at += length + 1 + value.size();
      continue;
    }
    for (const OptionVariable& option : kOptionVariables) {
      if (!rest.starts_with(option.option) || rest.size() <= option.option.size()) continue;
      const char next = rest[option.option.size()];
      if (next != ' ' && next != '=') continue;
      const std::string_view value = rest.substr(option.option.size() + 1);
      found.push_back(
          {number, std::string(option.variable), unquoted(value.substr(0, word_length(value)))});
    }
    at += std::max<size_t>(length, 1);
  }
}

}  // namespace

void add_variables(std::string_view environ_bytes, uint32_t salt, Setting& setting) {
  while (!environ_bytes.empty()) {
    const std::string_view entry = environ_bytes.substr(0, environ_bytes.find('\0'));
    environ_bytes.remove_prefix(std::min(entry.size() + 1, environ_bytes.size()));
    const size_t equals = entry.find('=');
    if (equals == std::string_view::npos || equals == 0) continue;
    add_variable(entry.substr(0, equals), entry.substr(equals + 1), salt, setting);
  }
}

void name_setting(Setting& setting) {
  if (const auto rank = setting.rank()) {
    setting.name = fmt::format("rank {}", *rank);
    return;
  }
  const std::string* text = setting.variable("TF_CONFIG");
  if (text == nullptr) return;
  const TfConfig config = parse_tf_config(*text);
  if (!config.type.empty() && config.index >= 0) setting.name = config.task();
}

Result<JobSettings> read_settings(std::string_view text, const std::string& source) {
  JobSettings job;
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (text.find('\0') != std::string_view::npos) {
    Setting setting;
    setting.name = source;
    add_variables(text, 0, setting);
    job.processes.push_back(std::move(setting));
  } else if (first != std::string_view::npos && (text[first] == '{' || text[first] == '[')) {
    PARAMEDIC_ASSIGN(const Json json, parse_json(text, source));
    for (const Json& item : json.is_array() ? json : Json::array({json})) {
      read_object(item, source, job);
    }
  } else {
    PARAMEDIC_ASSIGN(job.processes, read_lines(text, source));
  }
  if (job.processes.empty() && job.hosts.empty()) {
    return invalid_argument(fmt::format("{}: no environment of a process in it", source),
                            "an object of variables, or a list of such objects");
  }
  for (Setting& setting : job.processes) {
    for (const char* name : {"HOSTNAME", "SLURMD_NODENAME"}) {
      const std::string* host = setting.variable(name);
      if (setting.host.empty() && host != nullptr) setting.host = *host;
    }
    name_setting(setting);
  }
  return job;
}

std::vector<Assignment> read_assignments(std::string_view script) {
  std::vector<Assignment> found;
  for (int32_t number = 1; !script.empty() && found.size() < kAssignmentsMax; ++number) {
    read_script_line(take_line(script), number, found);
  }
  return found;
}

}  // namespace paramedic::cluster
