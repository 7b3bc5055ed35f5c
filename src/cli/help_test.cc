#include "cli/help.h"

#include <gtest/gtest.h>

#include "cli/golden.h"
#include "cli/text.h"

namespace paramedic::cli {
namespace {

void expect_help(const Command& command, const std::string& path, const std::string& file) {
  const std::string help = command_help(command, path);
  expect_golden("help-" + file + ".txt", help);
  for (size_t start = 0; start < help.size(); start = help.find('\n', start) + 1) {
    const std::string line = help.substr(start, help.find('\n', start) - start);
    EXPECT_LE(display_width(line), 100) << line;
  }
  for (const Command& child : command.subcommands) {
    expect_help(child, path + " " + child.name, file + "-" + child.name);
  }
}

TEST(Help, of_the_program_lists_the_commands) { expect_golden("help.txt", program_help()); }

TEST(Help, of_every_command_is_as_it_was_read_and_approved) {
  for (const Command& command : commands()) expect_help(command, command.name, command.name);
}

TEST(Help, documentation_is_made_from_the_same_words) { expect_file("docs/cli.md", markdown()); }

TEST(Help, hidden_commands_are_in_no_list) {
  EXPECT_EQ(program_help().find("\n  agent"), std::string::npos);
  EXPECT_EQ(bash_completion().find("agent"), std::string::npos);
  EXPECT_EQ(markdown().find("paramedic agent"), std::string::npos);
}

TEST(Help, completions_are_as_they_were_tried_in_the_shells) {
  expect_golden("completions.bash", bash_completion());
  EXPECT_EQ(zsh_completion().rfind("#compdef paramedic\n", 0), 0u);
  EXPECT_NE(zsh_completion().find(bash_completion()), std::string::npos);
}

}  // namespace
}  // namespace paramedic::cli
