#include <fmt/format.h>

#include "cli/command.h"
#include "cli/render_fleet.h"
#include "cli/render_html.h"
#include "cli/render_json.h"
#include "fleet/survey.h"
#include "fleet/tables.h"

namespace paramedic::cli {
namespace {

std::string cache_path(const Arguments& arguments, const Console& console) {
  const std::string& given = arguments.text("cache");
  if (given == "none") return "";
  if (!given.empty()) return given;
  return fleet::default_cache_path(console.environment("XDG_CACHE_HOME"),
                                   console.environment("HOME"));
}

Result<int> run_fleet(const Arguments& arguments, Console& console) {
  const std::string& dir = arguments.positional("DIR");
  const std::string& html = arguments.text("html");
  PARAMEDIC_ASSIGN(const std::vector<fleet::JobPath> paths, fleet::find_jobs(dir));
  if (paths.empty()) {
    return not_found("fleet: there is no run and no log in " + dir,
                     "`paramedic run` makes runs in paramedic-runs");
  }
  fleet::Cache cache(posix_file_system(), cache_path(arguments, console));
  fleet::SurveyOptions options;
  options.threads = static_cast<int>(arguments.number("threads"));
  if (console.color_err) {
    options.progress = [&](size_t done) {
      console.err << fmt::format("\r{} of {} jobs", done, paths.size()) << std::flush;
    };
  }
  const std::vector<fleet::Job> jobs = fleet::survey(paths, cache, options);
  if (console.color_err) console.err << "\r\033[K" << std::flush;
  if (const Status saved = cache.save(); !saved.ok()) {
    console.err << "paramedic: nothing is remembered: " << saved.message() << "\n";
  }
  const fleet::Tables tables = fleet::make_tables(jobs);
  if (!html.empty()) {
    PARAMEDIC_TRY(write_html(html, fleet_html(tables, dir), arguments.flag("force")));
    console.err << "paramedic: wrote " << html << "\n";
  }
  if (arguments.flag("json")) {
    Json json{{"schema", kJsonSchema}};
    json.update(to_json(tables));
    console.out << to_text(json) << "\n";
  } else if (html.empty()) {
    console.out << fleet_text(tables, Paint(console.color_out), console.width);
  }
  return 0;
}

}  // namespace

Command fleet_command() {
  Command command;
  command.name = "fleet";
  command.summary = "the statistics of many jobs' failures";
  command.about =
      "Judges every job in DIR as `paramedic diagnose` would and adds up why they failed, at which "
      "stage, and what machine time was lost; which failures came back and who met them first; and "
      "which retries only met the same failure again. A run is a job, so is a folder with one log "
      "for each rank, and so is every other log by itself. Machine time is that of the run, or "
      "lies between the first and the last date in a log, times the number of ranks.\n\n"
      "Logs are read several at a time and each once: what is known of their content is kept in a "
      "cache, so that the next call reads only what is new.";
  command.options = {json_option(),
                     {.name = "html",
                      .value = "FILE",
                      .help = "write the tables as one offline HTML file with plots instead"},
                     {.name = "force",
                      .kind = OptionKind::kFlag,
                      .value = "",
                      .help = "let --html overwrite FILE"},
                     {.name = "cache",
                      .value = "FILE",
                      .help = "where to remember what was read; none = nowhere; "
                              "~/.cache/paramedic/fleet.cache when left out"},
                     {.name = "threads",
                      .kind = OptionKind::kInteger,
                      .value = "N",
                      .help = "how many logs are read at a time; 0 = one for each processor",
                      .fallback = "0",
                      .max = 256}};
  command.positionals = {
      {.name = "DIR", .help = "the folder of the runs or logs", .required = true}};
  command.examples = {{"paramedic fleet paramedic-runs", "your own runs"},
                      {"paramedic fleet /logs --html week.html", "a page for everybody"},
                      {"paramedic fleet /logs --json", "for a script"}};
  command.run = run_fleet;
  return command;
}

}  // namespace paramedic::cli
