#include <chrono>

#include "base/clock.h"
#include "cli/command.h"
#include "cli/render_html.h"
#include "cli/render_json.h"
#include "cli/render_text.h"
#include "cli/runs.h"

namespace paramedic::cli {
namespace {

Result<int> show(const Arguments& arguments, Console& console) {
  const std::string& html = arguments.text("html");
  PARAMEDIC_ASSIGN(const auto reader, open_run(arguments, console));
  PARAMEDIC_ASSIGN(const Report report,
                   build_report(*reader, double(real_clock().wall_ns()) / 1e9));
  if (!html.empty()) {
    PARAMEDIC_TRY(write_html(html, render_html(report), arguments.flag("force")));
    console.err << "paramedic: wrote " << html << "\n";
  }
  if (arguments.flag("json")) {
    console.out << to_text(render_json(report)) << "\n";
  } else if (html.empty()) {
    console.out << render_text(report, {console.width, console.color_out});
  }
  return 0;
}

}  // namespace

Command show_command() {
  Command command;
  command.name = "show";
  command.summary = "the report of a run, live or finished";
  command.about =
      "Says how a run is doing: what is wrong and where, how the loss and the gradients went, "
      "where "
      "the time went, and what could not be captured. Works while the run is going on, after it, "
      "and after Paramedic itself was killed.";
  command.options = {json_option(),
                     {.name = "html",
                      .value = "FILE",
                      .help = "write the report as one offline HTML file instead"},
                     {.name = "force",
                      .kind = OptionKind::kFlag,
                      .value = "",
                      .help = "let --html overwrite FILE"},
                     dir_option()};
  command.positionals = {{"RUN", "a name in --dir or a path; the newest run when left out"}};
  command.examples = {{"paramedic show", "the newest run"},
                      {"paramedic show digits-3 --html report.html", "a file to send to somebody"},
                      {"paramedic show --json | python -m json.tool", "for a script"}};
  command.run = show;
  return command;
}

}  // namespace paramedic::cli
