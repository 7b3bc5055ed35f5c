#include "store/export.h"

#include <functional>
#include <memory>

#include "base/log.h"
#include "store/perfetto_file.h"
#include "store/run.h"
#include "store/table_file.h"
#include "store/tables.h"

namespace paramedic::store {
namespace {

// Rows of one row group of a Parquet file, unless they grow past the bytes.
constexpr size_t kChunkRowsMax = 128 << 10;
constexpr size_t kChunkBytesMax = 64 << 20;

class Exporter {
 public:
  Exporter(RunReader& reader, std::string format, std::string destination)
      : reader_(reader), format_(std::move(format)), destination_(std::move(destination)) {}

  Status run() {
    PARAMEDIC_TRY(table<StatsRow>(&RunReader::read_stats));
    PARAMEDIC_TRY(table<HistogramRow>(&RunReader::read_histograms));
    PARAMEDIC_TRY(table<ScalarRow>(&RunReader::read_scalars));
    PARAMEDIC_TRY(table<EventRow>(&RunReader::read_events));
    PARAMEDIC_TRY(table<ModelRow>(&RunReader::read_model));
    PARAMEDIC_TRY(table<TensorPieceRow>(&RunReader::read_tensor_pieces));
    PARAMEDIC_TRY(table<MetricRow>(&RunReader::read_metrics));
    PARAMEDIC_TRY(table<RepairRow>(&RunReader::read_repairs));
    PARAMEDIC_TRY(table<CollectiveRow>(&RunReader::read_collectives));
    PARAMEDIC_TRY(findings());
    for (const Damage& damage : reader_.damage()) {
      log::warn("{} at byte {}: {}; it is left out", damage.file, damage.offset, damage.what);
    }
    return {};
  }

  [[nodiscard]] std::string path_of(TableId table) const {
    return destination_ + "/" + table_name(table) + "." + format_;
  }

 private:
  // Collects rows and writes them in chunks.
  class Chunks {
   public:
    Chunks(TableFile& file, TableId table) : file_(file), columns_(table_columns(table).size()) {}

    template <typename Row>
    bool add(const Row& row) {
      RowAppender appender(columns_);
      Table<Row>::visit(row, appender);
      rows_++;
      size_t bytes = 0;
      for (const ColumnBuffer& column : columns_) bytes += column.values().size();
      if (rows_ >= kChunkRowsMax || bytes >= kChunkBytesMax) write();
      return status_.ok();
    }
    Status finish() {
      if (rows_ > 0) write();
      PARAMEDIC_TRY(status_);
      return file_.close();
    }

   private:
    void write() {
      if (status_.ok()) status_ = file_.write(columns_, rows_);
      for (ColumnBuffer& column : columns_) column.clear();
      rows_ = 0;
    }

    TableFile& file_;
    std::vector<ColumnBuffer> columns_;
    size_t rows_ = 0;
    Status status_;
  };

  Result<std::unique_ptr<TableFile>> create(TableId table) {
    const std::vector<ColumnSpec>& specs = table_columns(table);
    return format_ == "csv" ? create_csv(path_of(table), specs)
                            : create_parquet(path_of(table), specs);
  }

  template <typename Row>
  Status table(Status (RunReader::*read)(const std::function<bool(const Row&)>&)) {
    PARAMEDIC_ASSIGN(const std::unique_ptr<TableFile> file, create(Table<Row>::kId));
    Chunks chunks(*file, Table<Row>::kId);
    PARAMEDIC_TRY((reader_.*read)([&](const Row& row) { return chunks.add(row); }));
    return chunks.finish();
  }

  Status findings() {
    PARAMEDIC_ASSIGN(const std::unique_ptr<TableFile> file, create(TableId::kFindings));
    PARAMEDIC_ASSIGN(const std::vector<FindingRow> rows, reader_.read_findings());
    Chunks chunks(*file, TableId::kFindings);
    for (const FindingRow& row : rows) chunks.add(row);
    return chunks.finish();
  }

  RunReader& reader_;
  std::string format_;
  std::string destination_;
};

}  // namespace

Status export_run(const std::string& run_dir, const std::string& format,
                  const std::string& destination) {
  if (format != "csv" && format != "parquet" && format != "perfetto") {
    return invalid_argument("cannot export to '" + format + "'",
                            "the formats are csv, parquet and perfetto");
  }
  PARAMEDIC_ASSIGN(const std::unique_ptr<RunReader> reader, RunReader::open(run_dir));
  if (format == "perfetto") return write_perfetto(*reader, destination);
  FileSystem& files = posix_file_system();
  PARAMEDIC_TRY(files.make_folders(destination));
  Exporter exporter(*reader, format, destination);
  for (size_t table = 0; table < kTableCount; table++) {
    const std::string path = exporter.path_of(static_cast<TableId>(table));
    if (files.exists(path)) {
      return invalid_argument(path + " exists already", "choose another destination");
    }
  }
  return exporter.run();
}

}  // namespace paramedic::store
