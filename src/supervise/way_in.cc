#include "supervise/way_in.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/path.h"

namespace paramedic::supervise {

std::string why_nothing_seen(const std::vector<std::string>& command) {
  const auto is_python = [](const std::string& word) {
    return base_name(word).starts_with("python");
  };
  const auto python = std::find_if(command.begin(), command.end(), is_python);
  if (python == command.end()) {
    return "no process of the job imported a framework that Paramedic knows (torch)";
  }
  for (auto word = python + 1; word != command.end() && word->starts_with("-"); ++word) {
    if (word->starts_with("--")) continue;
    // The letters of -c and -m are followed by their own argument; -W and -X take one.
    for (const char letter : std::string_view(*word).substr(1)) {
      if (letter == 'c' || letter == 'm' || letter == 'W' || letter == 'X') break;
      if (letter == 'I' || letter == 'E') {
        return fmt::format("python was started with -{}, which ignores PYTHONPATH, our way in",
                           letter);
      }
      if (letter == 'S') {
        return "python was started with -S, which skips sitecustomize, our way in";
      }
    }
    if (word->ends_with("c") || word->ends_with("m")) break;
    if (*word == "-W" || *word == "-X") {
      if (++word == command.end()) break;
    }
  }
  return "the script imported none that Paramedic knows (torch)";
}

}  // namespace paramedic::supervise
