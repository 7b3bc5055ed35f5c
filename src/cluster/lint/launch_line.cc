#include "cluster/lint/launch_line.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "base/path.h"

namespace paramedic::cluster {
namespace {

constexpr size_t kWordsMax = 64;
constexpr size_t kWordBytesMax = 256;
constexpr int32_t kDefaultPort = 29500;  // torchrun's own

// Options of torchrun that stand alone.
constexpr std::array<std::string_view, 5> kFlags = {"standalone", "module", "no-python", "run-path",
                                                    "use-env"};

bool is_launcher_word(std::string_view word) {
  const std::string_view name = base_name(word);
  return name == "torchrun" || name == "torch.distributed.run" ||
         name == "torch.distributed.launch";
}

std::string option_name(std::string_view word) {
  const size_t start = word.find_first_not_of('-');
  std::string name(start == std::string_view::npos ? std::string_view() : word.substr(start));
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

}  // namespace

std::vector<std::string> launch_words(const std::vector<std::string>& argv) {
  const size_t names_max = std::min<size_t>(argv.size(), 4);
  size_t at = 0;
  while (at < names_max && !is_launcher_word(argv[at])) ++at;
  if (at == names_max) return {};
  std::vector<std::string> words{argv[at++]};
  while (at < argv.size() && argv[at].starts_with('-') && words.size() < kWordsMax) {
    const std::string word = argv[at++].substr(0, kWordBytesMax);
    words.push_back(word);
    const std::string name = option_name(word);
    const bool is_flag = std::find(kFlags.begin(), kFlags.end(), name) != kFlags.end() ||
                         name == "m" || word.find('=') != std::string::npos;
    if (!is_flag && at < argv.size()) words.push_back(argv[at++].substr(0, kWordBytesMax));
  }
  return words;
}

std::string LaunchLine::option(const std::string& name) const {
  const auto found = options.find(name);
  return found == options.end() ? std::string() : found->second;
}

bool LaunchLine::is_static() const {
  const std::string backend = option("rdzv-backend");
  return !options.contains("standalone") && (backend.empty() || backend == "static");
}

int32_t LaunchLine::store_port() const {
  if (!is_static() || whole_number(option("node-rank")).value_or(0) > 0) return 0;
  std::string text = option("master-port");
  if (const std::string endpoint = option("rdzv-endpoint"); !endpoint.empty()) {
    const size_t colon = endpoint.find_last_of(':');
    text = colon == std::string::npos ? "" : endpoint.substr(colon + 1);
  }
  return text.empty() ? kDefaultPort : static_cast<int32_t>(whole_number(text).value_or(0));
}

LaunchLine parse_launch(const Setting& launcher) {
  LaunchLine line;
  for (size_t i = 1; i < launcher.launch.size(); ++i) {
    const std::string& word = launcher.launch[i];
    const size_t equals = word.find('=');
    const std::string name = option_name(word.substr(0, equals));
    if (name.empty() || !word.starts_with('-')) continue;
    const bool is_flag = std::find(kFlags.begin(), kFlags.end(), name) != kFlags.end();
    std::string value;
    if (equals != std::string::npos) {
      value = word.substr(equals + 1);
    } else if (!is_flag && name != "m" && i + 1 < launcher.launch.size()) {
      value = launcher.launch[++i];
    }
    line.options[name] = value;
  }
  // torchrun reads PET_NNODES and its kin where the option is not given.
  for (const auto& [name, value] : launcher.variables) {
    if (name.starts_with("PET_")) {
      std::string option = option_name(name.substr(4));
      std::transform(option.begin(), option.end(), option.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      line.options.try_emplace(option, value);
    }
  }
  const std::string nodes = line.option("nnodes");
  const size_t colon = nodes.find(':');
  line.nnodes =
      whole_number(colon == std::string::npos ? nodes : nodes.substr(colon + 1)).value_or(1);
  return line;
}

}  // namespace paramedic::cluster
