#include "store/export.h"

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/runs.h"

namespace paramedic::cli {
namespace {

Result<int> export_run(const Arguments& arguments, Console& console) {
  const std::string& format = arguments.text("to");
  const std::string& folder = arguments.positional("DEST");
  if (format.empty())
    return invalid_argument("export: --to is missing", "--to csv, --to parquet or --to perfetto");
  // Opening adopts what a dead agent left, so that the newest rows are exported too.
  PARAMEDIC_ASSIGN(const auto reader, open_run(arguments, console));
  PARAMEDIC_TRY(store::export_run(reader->info().dir, format, folder));
  console.err << fmt::format("paramedic: wrote {} to {}\n", reader->info().dir, folder);
  return 0;
}

}  // namespace

Command export_command() {
  Command command;
  command.name = "export";
  command.summary = "a run's tables as CSV or Parquet, or its timeline, for other tools";
  command.about =
      "Writes the tables of a run into the folder DEST, one file a table, with the columns of "
      "docs/formats/run-folder.md. With --to perfetto DEST is one file, which "
      "https://ui.perfetto.dev opens: a process for each rank with its steps, phases and "
      "collectives. Files that exist are never overwritten.";
  command.options = {{.name = "to", .value = "FORMAT", .help = "csv, parquet or perfetto"},
                     dir_option()};
  command.positionals = {
      {"RUN", "a name in --dir or a path", true},
      {"DEST", "the folder to write into, made when missing; of perfetto the file", true}};
  command.examples = {
      {"paramedic export digits-3 --to perfetto timeline.json", "for ui.perfetto.dev"},
      {"paramedic export digits-3 --to parquet tables",
       "then: duckdb -c \"select * from 'tables/scalars.parquet'\""}};
  command.run = export_run;
  return command;
}

}  // namespace paramedic::cli
