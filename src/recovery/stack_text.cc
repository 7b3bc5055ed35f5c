#include "recovery/stack_text.h"

#include "base/lines.h"

namespace paramedic::recovery {
namespace {

constexpr std::string_view kStart = "Traceback (most recent call last):";
constexpr std::string_view kFile = "  File \"";
constexpr std::string_view kCode = "    ";
// A statement of the crashed frame may go on over some lines, of which older Pythons show one.
constexpr int kStatementLinesMax = 8;

// How many brackets `line` leaves open; those in strings and comments do not count.
int brackets_left_open(std::string_view line) {
  int open = 0;
  char quote = 0;
  for (size_t i = 0; i < line.size(); i++) {
    const char c = line[i];
    if (quote != 0) {
      if (c == '\\') i++;
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '#') {
      break;
    } else if (c == '(' || c == '[' || c == '{') {
      open++;
    } else if (c == ')' || c == ']' || c == '}') {
      open--;
    }
  }
  return open;
}

// Lines of marks ("    ~~~^^^") are no code.
bool is_marks(std::string_view line) {
  return line.find_first_not_of(" ~^") == std::string_view::npos;
}

}  // namespace

StackText stack_text(const Crash& crash) {
  StackText stack;
  std::string_view rest = crash.traceback;
  if (const size_t start = rest.rfind(kStart); start != std::string_view::npos) {
    rest.remove_prefix(start);
  }
  const Frame* place = crash.place();
  while (!rest.empty()) {
    const std::string_view line = take_line(rest);
    if (line.starts_with(kFile)) {
      std::string_view file = line.substr(kFile.size());
      file = file.substr(0, file.find('"'));
      stack.files.push_back(file);
      // Only what is called from the crashed frame counts as its code.
      if (place != nullptr && file == place->file) stack.code.clear();
    } else if (line.starts_with(kCode) && !is_marks(line)) {
      stack.code.push_back(line.substr(kCode.size()));
    }
  }
  if (place == nullptr) return stack;
  int open = 0;
  int lines = 0;
  for (const SourceLine& line : place->source) {
    if (line.number < place->line) continue;
    stack.code.push_back(line.text);
    open += brackets_left_open(line.text);
    // The next statement is no part of what failed.
    if (open <= 0 || ++lines >= kStatementLinesMax) break;
  }
  return stack;
}

}  // namespace paramedic::recovery
