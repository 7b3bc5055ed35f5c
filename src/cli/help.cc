#include "cli/help.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/text.h"

namespace paramedic::cli {
namespace {

constexpr int kHelpColumn = 26;

// A term and what it means, the meaning wrapped in a column of its own.
std::string definition(const std::string& term, const std::string& meaning) {
  std::string text = "  " + pad(term, kHelpColumn - 2);
  // A term that leaves no gap stands on a line of its own.
  if (display_width(term) > kHelpColumn - 4)
    text = "  " + term + "\n" + std::string(kHelpColumn, ' ');
  bool first = true;
  for (const std::string& line : wrap(meaning, kHelpWidth - kHelpColumn)) {
    if (!first) text += std::string(kHelpColumn, ' ');
    first = false;
    text += line + "\n";
  }
  return text;
}

std::string paragraphs(const std::string& about, int width) {
  std::string text;
  size_t start = 0;
  while (start < about.size()) {
    const size_t end = std::min(about.find("\n\n", start), about.size());
    for (const std::string& line : wrap(about.substr(start, end - start), width)) {
      text += line + "\n";
    }
    text += '\n';
    start = end + 2;
  }
  return text;
}

std::string usage(const Command& command, const std::string& path) {
  std::string text = "paramedic " + path;
  if (!command.subcommands.empty()) return text + " COMMAND [OPTIONS]";
  if (!command.options.empty()) text += " [OPTIONS]";
  for (const Positional& positional : command.positionals) {
    const std::string word = positional.name + (positional.many ? "…" : "");
    text += positional.required ? " " + word : " [" + word + "]";
  }
  if (command.takes_command) text += " -- COMMAND…";
  return text;
}

std::string option_term(const Option& option) {
  return "--" + option.name + (option.value.empty() ? "" : " " + option.value);
}

std::string option_meaning(const Option& option) {
  if (option.fallback.empty()) return option.help;
  return fmt::format("{} (default: {})", option.help, option.fallback);
}

const Option* longest_named(const Command& command) {
  const Option* longest = nullptr;
  for (const Option& option : command.options) {
    if (longest == nullptr || option.name.size() > longest->name.size()) longest = &option;
  }
  return longest;
}

std::string layering_note(const Command& command) {
  const Option* example = longest_named(command);
  if (example == nullptr) return "";
  return fmt::format(
      "An option can also be set in the environment ({}) or in paramedic.toml beside the script or "
      "in the current folder ({} = …); the command line wins, then the environment.",
      environment_name(*example), toml_key(*example));
}

std::string command_markdown(const Command& command, const std::string& path) {
  std::string text = fmt::format("## paramedic {}\n\n{}", path, paragraphs(command.about, 100));
  text += fmt::format("```\n{}\n```\n\n", usage(command, path));
  if (!command.positionals.empty()) {
    text += "| argument | meaning |\n|---|---|\n";
    for (const Positional& positional : command.positionals) {
      text += fmt::format("| `{}` | {} |\n", positional.name, positional.help);
    }
    text += '\n';
  }
  if (!command.options.empty()) {
    text += "| option | environment | `paramedic.toml` | meaning |\n|---|---|---|---|\n";
    for (const Option& option : command.options) {
      text += fmt::format("| `{}` | `{}` | `{}` | {} |\n", option_term(option),
                          environment_name(option), toml_key(option), option_meaning(option));
    }
    text += '\n';
  }
  for (const Example& example : command.examples) {
    text += fmt::format("- `{}`: {}\n", example.command, example.what);
  }
  if (!command.examples.empty()) text += '\n';
  for (const Command& child : command.subcommands) {
    text += command_markdown(child, path + " " + child.name);
  }
  return text;
}

std::string names_of(const std::vector<Command>& list) {
  std::string names;
  for (const Command& command : list) {
    if (command.hidden) continue;
    if (!names.empty()) names += ' ';
    names += command.name;
  }
  return names;
}

std::string option_words(const Command& command) {
  std::string words = "--help";
  for (const Option& option : command.options) words += " --" + option.name;
  return words;
}

// One `case` arm of the bash script: the words that may follow this command.
std::string bash_arm(const Command& command, const std::string& path) {
  std::string words = option_words(command);
  if (!command.subcommands.empty()) words = "--help " + names_of(command.subcommands);
  const bool takes_run = std::any_of(command.positionals.begin(), command.positionals.end(),
                                     [](const Positional& p) { return p.name == "RUN"; });
  std::string arm =
      fmt::format("    '{}') words='{}'; runs={} ;;\n", path, words, takes_run ? "yes" : "no");
  for (const Command& child : command.subcommands) arm += bash_arm(child, path + " " + child.name);
  return arm;
}

// The `case` pattern of all commands of two words: 'rules list'|'rules explain'|…
std::string pairs_pattern() {
  std::string pattern;
  for (const Command& command : commands()) {
    for (const Command& child : command.subcommands) {
      if (!pattern.empty()) pattern += '|';
      pattern += fmt::format("'{} {}'", command.name, child.name);
    }
  }
  return pattern;
}

}  // namespace

std::string program_help() {
  std::string text =
      "paramedic: watches a deep-learning training job and says what is wrong with it\n\n"
      "usage: paramedic COMMAND [OPTIONS]\n\ncommands:\n";
  for (const Command& command : commands()) {
    if (!command.hidden) text += definition(command.name, command.summary);
  }
  text += "\noptions:\n";
  text += definition("--help", "this text; after a command, the help of that command");
  text += definition("--version", "the version of this program");
  text +=
      "\nexamples:\n"
      "  paramedic run -- python train.py\n"
      "  paramedic show\n\n"
      "exit codes: run ends with the job's own code, 75 when a rule stopped the job;\n"
      "2 usage error or unreadable input, 70 a fault of Paramedic's own.\n";
  return text;
}

std::string command_help(const Command& command, const std::string& path) {
  std::string text =
      fmt::format("usage: {}\n\n{}", usage(command, path), paragraphs(command.about, kHelpWidth));
  if (!command.subcommands.empty()) {
    text += "commands:\n";
    for (const Command& child : command.subcommands) text += definition(child.name, child.summary);
    text += '\n';
  }
  if (!command.positionals.empty()) {
    text += "arguments:\n";
    for (const Positional& positional : command.positionals) {
      text += definition(positional.name, positional.help);
    }
    text += '\n';
  }
  text += "options:\n";
  for (const Option& option : command.options) {
    text += definition(option_term(option), option_meaning(option));
  }
  text += definition("--help", "this text");
  if (!command.examples.empty()) {
    text += "\nexamples:\n";
    size_t longest = 0;
    for (const Example& example : command.examples) {
      longest = std::max(longest, example.command.size());
    }
    for (const Example& example : command.examples) {
      text += fmt::format("  {}\n      {}\n", example.command, example.what);
    }
  }
  const std::string note = layering_note(command);
  if (!note.empty()) text += "\n" + paragraphs(note, kHelpWidth);
  while (text.ends_with("\n\n")) text.pop_back();
  return text;
}

std::string markdown() {
  std::string text =
      "# Commands\n\n"
      "Made from the commands' own metadata; `UPDATE_GOLDEN=1 build/dev/tests/cli_test` rewrites "
      "it.\n\n";
  for (const Command& command : commands()) {
    if (!command.hidden) text += command_markdown(command, command.name);
  }
  while (text.ends_with("\n\n")) text.pop_back();
  return text;
}

std::string bash_completion() {
  std::string arms;
  for (const Command& command : commands()) {
    if (!command.hidden) arms += bash_arm(command, command.name);
  }
  return fmt::format(
      R"bash(# bash completion for paramedic: eval "$(paramedic completions bash)"
_paramedic() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" command="${{COMP_WORDS[1]}}" words runs i
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '{0} --help --version' -- "$word"))
    return
  fi
  for ((i = 2; i < COMP_CWORD; i++)); do
    [ "${{COMP_WORDS[i]}}" = -- ] && {{ COMPREPLY=($(compgen -f -- "$word")); return; }}
  done
  if [ "$COMP_CWORD" -gt 2 ]; then
    case "$command ${{COMP_WORDS[2]}}" in {2}) command="$command ${{COMP_WORDS[2]}}" ;; esac
  fi
  case "$command" in
{1}    *) words='' runs=no ;;
  esac
  if [ "$runs" = yes ]; then
    words="$words $(command ls "${{PARAMEDIC_DIR:-paramedic-runs}}" 2>/dev/null)"
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word") $(compgen -f -- "$word"))
}}
complete -o filenames -F _paramedic paramedic
)bash",
      names_of(commands()), arms, pairs_pattern());
}

std::string zsh_completion() {
  // zsh runs bash completions through bashcompinit, so that there is one script to keep right.
  return "#compdef paramedic\n# zsh completion for paramedic: eval \"$(paramedic completions "
         "zsh)\"\n"
         "autoload -U +X compinit && compinit\n"
         "autoload -U +X bashcompinit && bashcompinit\n" +
         bash_completion();
}

}  // namespace paramedic::cli
