#include <fmt/format.h>

#include "cli/command.h"
#include "cli/export_tables.h"
#include "cli/runs.h"
#include "cli/text.h"

namespace paramedic::cli {
namespace {

using WriterMaker = Result<std::unique_ptr<TableWriter>> (*)(const std::string&,
                                                             const ExportTable&);

struct Format {
  const char* name;
  WriterMaker make;
};
constexpr Format kFormats[] = {{"csv", make_csv_writer}, {"parquet", make_parquet_writer}};

Result<uint64_t> export_table(const ExportTable& table, store::RunReader& reader,
                              const std::string& path, const Format& format) {
  PARAMEDIC_ASSIGN(const auto writer, format.make(path, table));
  Status failed;
  uint64_t rows = 0;
  PARAMEDIC_TRY(table.read(reader, [&](std::span<const Cell> row) {
    failed = writer->add(row);
    rows++;
    return failed.ok();
  }));
  PARAMEDIC_TRY(failed);
  PARAMEDIC_TRY(writer->close());
  return rows;
}

Result<int> export_run(const Arguments& arguments, Console& console) {
  const std::string& name = arguments.text("to");
  const Format* format = nullptr;
  for (const Format& known : kFormats) {
    if (name == known.name) format = &known;
  }
  if (format == nullptr) {
    return invalid_argument(name.empty() ? "export: --to is missing"
                                         : fmt::format("--to: unknown format '{}'", clean(name)),
                            "--to csv or --to parquet");
  }
  const std::string& folder = arguments.positional("DEST");
  FileSystem& files = posix_file_system();
  PARAMEDIC_ASSIGN(const auto reader, open_run(arguments, console));
  PARAMEDIC_TRY(files.make_folders(folder));
  for (const ExportTable& table : export_tables()) {
    const std::string path = fmt::format("{}/{}.{}", folder, table.name, name);
    if (files.exists(path)) {
      return invalid_argument(path + " exists already", "DEST is best a new folder");
    }
  }
  for (const ExportTable& table : export_tables()) {
    const std::string path = fmt::format("{}/{}.{}", folder, table.name, name);
    PARAMEDIC_ASSIGN(const uint64_t rows, export_table(table, *reader, path, *format));
    console.err << fmt::format("paramedic: wrote {} ({})\n", path, counted(rows, "row"));
  }
  for (const store::Damage& damage : reader->damage()) {
    console.err << fmt::format("paramedic: damaged, skipped: {} at byte {}: {}\n",
                               clean(damage.file), damage.offset, clean(damage.what));
  }
  return 0;
}

}  // namespace

Command export_command() {
  Command command;
  command.name = "export";
  command.summary = "a run's tables as CSV or Parquet, for other tools";
  command.about =
      "Writes the tables of a run into the folder DEST, one file a table: stats, scalars, "
      "histograms, events, model, metrics, findings. Files that exist are never overwritten. Raw "
      "tensors are read with paramedic.open(run) in Python.";
  command.options = {{.name = "to", .value = "FORMAT", .help = "csv or parquet"}, dir_option()};
  command.positionals = {{"RUN", "a name in --dir or a path", true},
                         {"DEST", "the folder to write into; made when missing", true}};
  command.examples = {{"paramedic export digits-3 --to parquet tables",
                       "then: duckdb -c \"select * from 'tables/scalars.parquet'\""}};
  command.run = export_run;
  return command;
}

}  // namespace paramedic::cli
