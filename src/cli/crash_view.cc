#include "cli/crash_view.h"

#include <fmt/format.h>

#include <algorithm>

namespace paramedic::cli {
namespace {

constexpr int kNameWidthMax = 20;
constexpr int kTypeWidthMax = 16;

std::string place_of(const recovery::Frame& frame, int width) {
  const std::string end = fmt::format(":{} in {}", frame.line, clean(frame.function));
  return cut_middle(clean(frame.file), std::max(width - display_width(end), 8)) + end;
}

int widest(const std::vector<const recovery::Variable*>& variables,
           std::string recovery::Variable::* text, int most) {
  int width = 1;
  for (const auto* variable : variables) {
    width = std::max(width, display_width(clean(variable->*text)));
  }
  return std::min(width, most);
}

}  // namespace

std::string crash_head(const recovery::Crash& crash, const CrashViewOptions& options) {
  std::string facts = fmt::format("rank {}", crash.rank);
  if (crash.step) facts += fmt::format(" · step {}", *crash.step);
  facts += fmt::format(" · process {}", crash.pid);
  if (!crash.host.empty()) facts += " · " + clean(crash.host);
  if (!crash.thread.empty() && crash.thread != "MainThread") facts += " · " + clean(crash.thread);
  if (crash.repeats > 0) facts += fmt::format(" · {} times without progress", crash.repeats + 1);
  std::string text = options.paint(Style::kDim, cut(facts, options.width)) + "\n";
  const std::string type = clean(crash.exception);
  text += options.paint(Style::kError, cut(type, options.width)) + "\n";
  for (const std::string& line : message_lines(crash.message, options.width - 2)) {
    text += "  " + line + "\n";
  }
  return text;
}

std::string frame_view(const recovery::Crash& crash, size_t index,
                       const CrashViewOptions& options) {
  const recovery::Frame& frame = crash.frames.at(index);
  const std::string count = fmt::format("frame {} of {}", index + 1, crash.frames.size());
  const std::string place = place_of(frame, options.width - display_width(count) - 2);
  std::string text = options.paint(Style::kBold, place);
  const int gap = options.width - display_width(place) - display_width(count);
  text += std::string(std::max(gap, 2), ' ') + options.paint(Style::kDim, count) + "\n";
  int number_width = 1;
  for (const recovery::SourceLine& line : frame.source) {
    number_width = std::max(number_width, static_cast<int>(std::to_string(line.number).size()));
  }
  for (const recovery::SourceLine& line : frame.source) {
    const bool failed = line.number == frame.line;
    const std::string shown = cut(fmt::format("{} {:>{}} │ {}", failed ? ">" : " ", line.number,
                                              number_width, clean(line.text)),
                                  options.width);
    text += (failed ? options.paint(Style::kAccent, shown) : shown) + "\n";
  }
  return text;
}

std::string stack_view(const recovery::Crash& crash, size_t selected,
                       const CrashViewOptions& options) {
  std::string text;
  for (size_t i = 0; i < crash.frames.size(); i++) {
    const std::string line = fmt::format("{} {:>2}  {}", i == selected ? ">" : " ", i + 1,
                                         place_of(crash.frames[i], options.width - 6));
    text += (i == selected ? options.paint(Style::kAccent, line) : line) + "\n";
  }
  return text;
}

std::string locals_view(const recovery::Frame& frame, const std::vector<std::string>& names,
                        const CrashViewOptions& options) {
  std::vector<const recovery::Variable*> shown;
  for (const recovery::Variable& variable : frame.variables) {
    const bool wanted =
        names.empty() || std::find(names.begin(), names.end(), variable.name) != names.end();
    if (wanted) shown.push_back(&variable);
  }
  const int name_width = widest(shown, &recovery::Variable::name, kNameWidthMax);
  const int type_width = widest(shown, &recovery::Variable::type, kTypeWidthMax);
  std::string text;
  for (const auto* variable : shown) {
    const std::string name = pad(cut(clean(variable->name), name_width), name_width);
    const std::string type = pad(cut_middle(clean(variable->type), type_width), type_width);
    const std::string value =
        cut(clean(variable->value), std::max(options.width - name_width - type_width - 4, 8));
    const bool is_bad = value.find(" NaN") != std::string::npos ||
                        value.find(" Inf") != std::string::npos || value == "nan";
    text += options.paint(Style::kBold, name) + "  " + options.paint(Style::kDim, type) + "  " +
            (is_bad ? options.paint(Style::kError, value) : value) + "\n";
  }
  return text;
}

}  // namespace paramedic::cli
