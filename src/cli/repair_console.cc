#include "cli/repair_console.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/lines.h"
#include "cli/options.h"
#include "cli/places.h"
#include "cli/source_edit.h"

namespace paramedic::cli {
namespace {

constexpr int kHelpWidth = 18;
constexpr const char* kFallbackEditor = "vi";

std::optional<int> number_in(const std::string& text) {
  int number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return number;
}

std::string trimmed(const std::string& text) {
  const size_t start = text.find_first_not_of(" \t");
  if (start == std::string::npos) return "";
  return text.substr(start, text.find_last_not_of(" \t") + 1 - start);
}

recovery::Repair repair_of(const char* kind) {
  recovery::Repair repair;
  repair.kind = kind;
  return repair;
}

std::string editor_of(const Environment& environment) {
  for (const char* name : {"VISUAL", "EDITOR"}) {
    const char* value = environment(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return kFallbackEditor;
}

}  // namespace

struct RepairConsole::Entry {
  const char* name;
  const char* argument;
  const char* help;
  void (RepairConsole::*act)(const std::string& rest);
};

const std::vector<RepairConsole::Entry>& RepairConsole::entries() {
  static const std::vector<Entry> kEntries = {
      {"where", "", "the source around the line that failed", &RepairConsole::where},
      {"stack", "", "the frames of the job's own files", &RepairConsole::stack},
      {"up", "", "to the frame that called this one", &RepairConsole::up},
      {"down", "", "back towards the frame that crashed", &RepairConsole::down},
      {"frame", "N", "to frame N", &RepairConsole::frame},
      {"locals", "[NAME…]", "what the frame's names hold", &RepairConsole::locals},
      {"p", "EXPR", "the value of an expression in the frame", &RepairConsole::print},
      {"rank", "N", "to another rank that waits", &RepairConsole::rank},
      {"retry", "[FILE:LINE]", "run the failing statement again, or go on at another one",
       &RepairConsole::retry},
      {"exec", "CODE", "run code that sees and sets the frame's names, then retry",
       &RepairConsole::exec},
      {"edit", "[FILE]", "change the source in $EDITOR and go on with it", &RepairConsole::edit},
      {"apply", "PATCH", "apply a unified diff and go on", &RepairConsole::apply},
      {"skip", "", "go to the next iteration of the loop", &RepairConsole::skip},
      {"rewind", "", "go to the start of the iteration", &RepairConsole::rewind},
      {"rollback", "", "go back to the newest snapshot", &RepairConsole::rollback},
      {"return", "EXPR", "let the crashed function return a value", &RepairConsole::give_back},
      {"abort", "", "let the job end with its exception", &RepairConsole::abort},
      {"help", "", "this list", &RepairConsole::help},
      {"quit", "", "leave; the job stays paused", &RepairConsole::quit}};
  return kEntries;
}

Result<int> RepairConsole::serve() {
  PARAMEDIC_TRY(refresh());
  const auto complete = [this](std::string_view line) { return words_for(line); };
  while (!is_over_) {
    const auto line = input_.next(fmt::format("(rank {}) ", crash().rank), complete);
    if (!line) {
      quit("");
      break;
    }
    execute(*line);
  }
  return 0;
}

// What waits now; the console is over when nothing does.
Status RepairConsole::refresh() {
  PARAMEDIC_ASSIGN(crashes_, run_.look());
  is_over_ = crashes_.empty();
  if (!is_over_) select(0);
  return {};
}

void RepairConsole::select(size_t index) {
  selected_ = index;
  frame_ = crash().frames.empty() ? 0 : crash().frames.size() - 1;
  console_.out << crash_head(crash(), view());
  show_place();
  if (crashes_.size() > 1) {
    std::string ranks;
    for (const recovery::Crash& each : crashes_) ranks += fmt::format(" {}", each.rank);
    say(fmt::format("{} ranks wait:{}", crashes_.size(), ranks));
  }
  say("`help` lists what can be done");
}

void RepairConsole::show_place() {
  if (crash().frames.empty()) return say("no frame of the job's own files is on the stack");
  console_.out << "\n" << frame_view(crash(), frame_, view()) << std::flush;
}

void RepairConsole::execute(const std::string& line) {
  const std::string text = trimmed(line);
  if (text.empty()) return;
  const size_t space = text.find(' ');
  const std::string name = text.substr(0, space);
  const std::string rest = space == std::string::npos ? "" : trimmed(text.substr(space));
  std::vector<std::string> names;
  for (const Entry& entry : entries()) {
    if (name == entry.name) {
      const bool wants_argument = *entry.argument != '\0' && *entry.argument != '[';
      if (wants_argument && rest.empty()) {
        return say(fmt::format("{} {}: {}", entry.name, entry.argument, entry.help));
      }
      return (this->*entry.act)(rest);
    }
    names.emplace_back(entry.name);
  }
  const std::string meant = closest(name, names);
  say(fmt::format("there is no `{}`{}; `p EXPR` prints a value, `help` lists all", clean(name),
                  meant.empty() ? "" : fmt::format(" (did you mean `{}`?)", meant)));
}

void RepairConsole::carry_out(const recovery::Repair& repair) {
  const auto answer = run_.repair(crash().rank, repair);
  if (!answer.ok()) return say(answer.status().to_string());
  if (!bool_or(*answer, "resumed", false)) {
    say(clean(string_or(*answer, "reason", "it was not carried out")));
    // An abort ends the wait, a refusal does not.
    if (repair.kind != "abort") return;
  } else {
    say(fmt::format("rank {} goes on ({:.1f} ms)", crash().rank, number_or(*answer, "took_ms", 0)));
    const std::string note = clean(string_or(*answer, "reason", ""));
    if (!note.empty()) say(note);
  }
  if (const Status status = refresh(); !status.ok()) is_over_ = true;
}

void RepairConsole::say(const std::string& text) {
  for (const std::string& line : wrap(text, console_.width)) console_.out << line << "\n";
  console_.out << std::flush;
}

std::vector<std::string> RepairConsole::words_for(std::string_view line) const {
  const size_t start = line.find_last_of(" ([{,=.+-*/") + 1;
  const std::string_view begun = line.substr(start);
  std::vector<std::string> words;
  const auto offer = [&](const std::string& word) {
    if (word.starts_with(begun)) words.push_back(word);
  };
  if (line.find(' ') == std::string_view::npos) {
    for (const Entry& entry : entries()) offer(entry.name);
  } else if (!crash().frames.empty()) {
    for (const recovery::Variable& name : crash().frames[frame_].variables) offer(name.name);
  }
  std::sort(words.begin(), words.end());
  return words;
}

void RepairConsole::where(const std::string&) { show_place(); }

void RepairConsole::stack(const std::string&) {
  console_.out << stack_view(crash(), frame_, view()) << std::flush;
}

void RepairConsole::up(const std::string&) {
  if (frame_ == 0) return say("this is the outermost frame");
  frame_--;
  show_place();
}

void RepairConsole::down(const std::string&) {
  if (frame_ + 1 >= crash().frames.size()) return say("this is the frame that crashed");
  frame_++;
  show_place();
}

void RepairConsole::frame(const std::string& rest) {
  const auto number = number_in(rest);
  if (!number || *number < 1 || static_cast<size_t>(*number) > crash().frames.size()) {
    return say(fmt::format("there are frames 1 to {}", crash().frames.size()));
  }
  frame_ = static_cast<size_t>(*number) - 1;
  show_place();
}

void RepairConsole::locals(const std::string& rest) {
  if (crash().frames.empty()) return show_place();
  std::vector<std::string> names;
  for (size_t at = 0; at < rest.size();) {
    const size_t end = std::min(rest.find(' ', at), rest.size());
    if (end > at) names.push_back(rest.substr(at, end - at));
    at = end + 1;
  }
  const std::string text = locals_view(crash().frames[frame_], names, view());
  if (text.empty()) return say("there is no such name; `p EXPR` evaluates anything");
  console_.out << text << std::flush;
}

void RepairConsole::print(const std::string& rest) {
  const auto text = run_.ask(crash().rank, frame_from_end(), rest);
  if (!text.ok()) return say(text.status().to_string());
  std::string_view left = *text;
  do {
    console_.out << clean(take_line(left)) << "\n";
  } while (!left.empty());
  console_.out << std::flush;
}

void RepairConsole::rank(const std::string& rest) {
  const auto number = number_in(rest);
  for (size_t i = 0; i < crashes_.size(); i++) {
    if (number == crashes_[i].rank) return select(i);
  }
  say(fmt::format("rank {} does not wait", clean(rest)));
}

void RepairConsole::retry(const std::string& rest) {
  recovery::Repair repair = repair_of("retry");
  if (!rest.empty()) {
    auto place = parse_place(rest);
    if (!place.ok()) return say(place.status().to_string());
    repair.at = std::move(place).value();
  }
  carry_out(repair);
}

void RepairConsole::exec(const std::string& rest) {
  recovery::Repair repair = repair_of("action");
  repair.code = rest;
  repair.frame = frame_from_end();
  carry_out(repair);
}

void RepairConsole::edit(const std::string& rest) {
  std::string path = rest;
  int line = 1;
  if (path.empty()) {
    if (crash().frames.empty()) return show_place();
    path = crash().frames[frame_].file;
    line = crash().frames[frame_].line;
  }
  if (!path.starts_with('/')) path = cwd_ + "/" + path;
  auto patch = edit_source(path, line, editor_of(console_.environment));
  if (!patch.ok()) return say(patch.status().to_string());
  if (patch->empty()) return say("nothing was changed");
  recovery::Repair repair = repair_of("edit");
  repair.patch = std::move(patch).value();
  carry_out(repair);
}

void RepairConsole::apply(const std::string& rest) {
  auto patch = posix_file_system().read(rest);
  if (!patch.ok()) return say(patch.status().to_string());
  recovery::Repair repair = repair_of("edit");
  repair.patch = std::move(patch).value();
  carry_out(repair);
}

void RepairConsole::skip(const std::string&) { carry_out(repair_of("skip")); }
void RepairConsole::rewind(const std::string&) { carry_out(repair_of("rewind")); }
void RepairConsole::rollback(const std::string&) { carry_out(repair_of("rollback")); }

void RepairConsole::give_back(const std::string& rest) {
  recovery::Repair repair = repair_of("return");
  repair.value = rest;
  repair.frame = frame_from_end();
  carry_out(repair);
}

void RepairConsole::abort(const std::string&) { carry_out(repair_of("abort")); }

void RepairConsole::help(const std::string&) {
  for (const Entry& entry : entries()) {
    const std::string call = fmt::format("{} {}", entry.name, entry.argument);
    console_.out << "  " << pad(call, kHelpWidth)
                 << cut(entry.help, console_.width - kHelpWidth - 2) << "\n";
  }
  console_.out << std::flush;
}

void RepairConsole::quit(const std::string&) {
  is_over_ = true;
  say("the job stays paused: paramedic attach comes back to it");
}

}  // namespace paramedic::cli
