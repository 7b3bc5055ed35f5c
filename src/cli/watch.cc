#include "cli/command.h"
#include "cli/follow.h"
#include "cli/render_text.h"
#include "cli/runs.h"

namespace paramedic::cli {
namespace {

Result<int> watch(const Arguments& arguments, Console& console) {
  PARAMEDIC_ASSIGN(const std::string folder, find_run(posix_file_system(), arguments.text("dir"),
                                                      arguments.positional("RUN")));
  PARAMEDIC_ASSIGN(const Followed last, follow_run(folder, console, is_over));
  console.out << render_text(last.report, {console.width, console.color_out});
  return 0;
}

}  // namespace

Command watch_command() {
  Command command;
  command.name = "watch";
  command.summary = "the report, refreshed each second until the run ends";
  command.about =
      "Shows what `paramedic show` shows, again each second, until the run ends or Ctrl-C; the "
      "last "
      "report stays on the screen. The run itself is not touched. Without a terminal only the last "
      "report is printed.";
  command.options = {dir_option()};
  command.positionals = {{"RUN", "a name in --dir or a path; the newest run when left out"}};
  command.examples = {{"paramedic watch", "the newest run"}};
  command.run = watch;
  return command;
}

}  // namespace paramedic::cli
