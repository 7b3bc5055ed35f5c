#include "cli/program.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <set>

#include "base/path.h"
#include "cli/help.h"
#include "cli/text.h"

namespace paramedic::cli {
namespace {

constexpr int kWidthMin = 40;
constexpr int kWidthMax = 200;

// The words of a call, taken apart.
struct Call {
  const Command* command = nullptr;
  std::string path;                  // "rules list"
  std::vector<std::string> options;  // what is Paramedic's own to parse
  std::vector<std::string> job;      // of a command that takes one
};

const Command* find_command(const std::vector<Command>& list, const std::string& name) {
  for (const Command& command : list) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

Status unknown_command(const std::vector<Command>& list, const std::string& name) {
  std::vector<std::string> names;
  for (const Command& command : list) {
    if (!command.hidden) names.push_back(command.name);
  }
  const std::string meant = closest(name, names);
  return invalid_argument(fmt::format("unknown command '{}'", clean(name)),
                          meant.empty() ? "`paramedic --help` lists the commands"
                                        : fmt::format("did you mean `{}`?", meant));
}

// The job's command begins after `--`, or at the first word that is neither an option nor the
// value of one: its own options must reach it untouched.
void split_job(Call& call, const std::vector<std::string>& words) {
  std::set<std::string> with_value;
  for (const Option& option : call.command->options) {
    if (option.kind != OptionKind::kFlag) with_value.insert("--" + option.name);
  }
  size_t at = 0;
  while (at < words.size() && words[at].starts_with('-') && words[at] != "--") {
    const size_t taken = with_value.contains(words[at]) ? 2 : 1;
    for (size_t i = 0; i < taken && at < words.size(); i++) call.options.push_back(words[at++]);
  }
  if (at < words.size() && words[at] == "--") at++;
  call.job.assign(words.begin() + static_cast<std::ptrdiff_t>(at), words.end());
}

Result<Call> take_apart(const std::vector<std::string>& words) {
  Call call;
  const std::vector<Command>* list = &commands();
  size_t at = 0;
  while (at < words.size() && !words[at].starts_with('-')) {
    call.command = find_command(*list, words[at]);
    if (call.command == nullptr) return unknown_command(*list, words[at]);
    call.path += (call.path.empty() ? "" : " ") + words[at++];
    list = &call.command->subcommands;
    if (list->empty()) break;
  }
  const std::vector<std::string> rest(words.begin() + static_cast<std::ptrdiff_t>(at), words.end());
  if (call.command != nullptr && call.command->takes_command) {
    split_job(call, rest);
  } else {
    call.options = rest;
  }
  return call;
}

constexpr int kPositionalsMax = 10000;

struct Parsed {
  bool help = false;
  std::map<std::string, std::string> options;
  std::map<std::string, std::vector<std::string>> positionals;
};

Status unexpected(const Call& call, const std::string& word) {
  const std::string hint = fmt::format("`paramedic {} --help` lists the options", call.path);
  if (!word.starts_with('-')) {
    return invalid_argument(fmt::format("unexpected argument '{}'", clean(word)), hint);
  }
  std::vector<std::string> names;
  names.reserve(call.command->options.size());
  for (const Option& option : call.command->options) names.push_back("--" + option.name);
  const std::string meant = closest(word.substr(0, word.find('=')), names);
  return invalid_argument(fmt::format("{}: unknown option '{}'", call.path, clean(word)),
                          meant.empty() ? hint : fmt::format("did you mean {}?", meant));
}

// CLI11 does the parsing; its exceptions end here. Every value stays text until all layers are
// known (options.h).
Result<Parsed> parse(const Call& call) {
  Parsed parsed;
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  app.add_flag("-h,--help", parsed.help);
  std::deque<std::pair<const Option*, CLI::Option*>> options;
  std::map<std::string, bool> flags;
  std::map<std::string, std::vector<std::string>> texts;
  for (const Option& option : call.command->options) {
    const std::string name = "--" + option.name;
    if (option.kind == OptionKind::kFlag) {
      options.emplace_back(&option, app.add_flag(name, flags[option.name]));
    } else {
      // A list is given by repeating its option, never by taking the words that follow.
      CLI::Option* made = app.add_option(name, texts[option.name])->expected(1);
      made->allow_extra_args(false)->multi_option_policy(option.kind == OptionKind::kList
                                                             ? CLI::MultiOptionPolicy::TakeAll
                                                             : CLI::MultiOptionPolicy::TakeLast);
      options.emplace_back(&option, made);
    }
  }
  for (const Positional& positional : call.command->positionals) {
    // All but the last take one word; CLI11 fills them in order.
    app.add_option(positional.name, parsed.positionals[positional.name])
        ->expected(1, positional.many ? kPositionalsMax : 1)
        ->allow_extra_args(positional.many);
  }
  try {
    // CLI11 takes its words from the back.
    app.parse(std::vector<std::string>(call.options.rbegin(), call.options.rend()));
  } catch (const CLI::Error& error) {
    return invalid_argument(fmt::format("{}: {}", call.path, clean(error.what())),
                            fmt::format("`paramedic {} --help` explains the options", call.path));
  }
  if (parsed.help) return parsed;
  if (const auto extras = app.remaining(); !extras.empty()) return unexpected(call, extras.front());
  for (const auto& [option, made] : options) {
    if (made->count() == 0) continue;
    std::string& text = parsed.options[option->name];
    if (option->kind == OptionKind::kFlag) text = flags[option->name] ? "true" : "false";
    for (const std::string& item : texts[option->name]) text += (text.empty() ? "" : ",") + item;
  }
  for (const Positional& positional : call.command->positionals) {
    if (!positional.required || !parsed.positionals[positional.name].empty()) continue;
    return invalid_argument(fmt::format("{}: {} is missing", call.path, positional.name),
                            fmt::format("`paramedic {} --help` shows examples", call.path));
  }
  return parsed;
}

void collect_options(const std::vector<Command>& list, std::vector<Option>& all) {
  for (const Command& command : list) {
    all.insert(all.end(), command.options.begin(), command.options.end());
    collect_options(command.subcommands, all);
  }
}

Result<int> run_call(const Call& call, Console& console) {
  PARAMEDIC_ASSIGN(Parsed parsed, parse(call));
  if (parsed.help) {
    console.out << command_help(*call.command, call.path);
    return 0;
  }
  if (call.command->run == nullptr) {
    return invalid_argument(fmt::format("{}: a command is missing", call.path),
                            fmt::format("`paramedic {} --help` lists them", call.path));
  }
  Layers layers{std::move(parsed.options), console.environment, {}};
  PARAMEDIC_ASSIGN(layers.file, load_config(posix_file_system(), call.job));
  std::vector<Option> known;
  collect_options(commands(), known);
  PARAMEDIC_TRY(check_config_keys(layers.file, known));
  PARAMEDIC_ASSIGN(auto values, resolve(call.command->options, layers));
  const Arguments arguments(std::move(values), std::move(parsed.positionals), call.job,
                            std::move(layers.file));
  return call.command->run(arguments, console);
}

}  // namespace

#define X(name) Command name##_command();
#include "cli/list.inc"
#undef X

const std::vector<Command>& commands() {
  static const std::vector<Command> list = {
#define X(name) name##_command(),
#include "cli/list.inc"
#undef X
  };
  return list;
}

const Value& Arguments::option(const std::string& name) const {
  const auto found = options_.find(name);
  PARAMEDIC_CHECK(found != options_.end());
  return found->second;
}

const std::string& Arguments::positional(const std::string& name) const {
  const auto found = positionals_.find(name);
  PARAMEDIC_CHECK(found != positionals_.end());
  static const std::string kNone;
  return found->second.empty() ? kNone : found->second.front();
}

const std::vector<std::string>& Arguments::positionals(const std::string& name) const {
  const auto found = positionals_.find(name);
  PARAMEDIC_CHECK(found != positionals_.end());
  return found->second;
}

Option dir_option() {
  return {
      .name = "dir", .value = "DIR", .help = "the folder of runs", .fallback = "paramedic-runs"};
}

Option json_option() {
  return {.name = "json",
          .kind = OptionKind::kFlag,
          .value = "",
          .help = "print one JSON object instead of text (contract: docs/cli.md)"};
}

int run_program(const std::vector<std::string>& words, Console& console) {
  if (words.size() == 1 && (words[0] == "--version" || words[0] == "version")) {
    console.out << "paramedic " PARAMEDIC_VERSION "\n";
    return 0;
  }
  if (!words.empty() && (words[0] == "--help" || words[0] == "-h")) {
    console.out << program_help();
    return 0;
  }
  if (words.empty()) {
    console.err << program_help();
    return 2;
  }
  Result<Call> call = take_apart(words);
  Status status = call.status();
  if (call.ok() && call->command == nullptr) {
    status = invalid_argument(fmt::format("unknown option '{}'", clean(words[0])),
                              "options of a command come after its name");
  } else if (call.ok()) {
    Result<int> code = run_call(*call, console);
    if (code.ok()) return *code;
    status = code.status();
  }
  console.err << Paint(console.color_err)(Style::kError, "paramedic:") << " " << status.to_string()
              << "\n";
  return status.exit_code();
}

Console process_console() {
  Console console{std::cout, std::cerr, [](const char* name) { return std::getenv(name); }};
  console.out_is_terminal = ::isatty(STDOUT_FILENO) == 1;
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool allowed = (no_color == nullptr || *no_color == '\0') &&
                       !(term != nullptr && std::string_view(term) == "dumb");
  console.color_out = allowed && console.out_is_terminal;
  console.color_err = allowed && ::isatty(STDERR_FILENO) == 1;
  winsize size{};
  if (console.out_is_terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
      size.ws_col > 0) {
    console.width = std::clamp<int>(size.ws_col, kWidthMin, kWidthMax);
    console.rows = std::max<int>(size.ws_row, 10);
  }
  return console;
}

Result<Home> find_home(FileSystem& files, const Environment& environment) {
  std::string home;
  if (const char* given = environment("PARAMEDIC_HOME"); given != nullptr && *given != '\0') {
    home = given;
  } else {
    char path[4096];
    const ssize_t bytes = ::readlink("/proc/self/exe", path, sizeof path - 1);
    if (bytes < 0) return errno_error("cannot read", "/proc/self/exe", errno);
    home.assign(path, static_cast<size_t>(bytes));
    home = std::string(folder_of(folder_of(home)));
  }
  Home found{home + "/python", home + "/lib/libparamedic_probe.so"};
  // In a wheel, bin/ and lib/ lie inside the package itself.
  if (files.exists(home + "/inject/sitecustomize.py")) {
    found.python_dir = folder_of(home);
  }
  for (const std::string& part : {found.python_dir + "/paramedic", found.probe_path}) {
    if (files.exists(part)) continue;
    return not_found(fmt::format("this installation is incomplete: {} does not exist", part),
                     "PARAMEDIC_HOME names the folder that holds python/ and lib/");
  }
  return found;
}

}  // namespace paramedic::cli
