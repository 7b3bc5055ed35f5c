#include <arrow/api.h>
#include <arrow/io/file.h>
#include <parquet/arrow/writer.h>

#include "base/file.h"
#include "cli/export_tables.h"

namespace paramedic::cli {
namespace {

constexpr int64_t kRowsOfGroup = 1 << 17;

// Arrow's own Status as ours.
Status translated(const arrow::Status& status, const std::string& path) {
  if (status.ok()) return {};
  return io_error("cannot write " + path + ": " + status.ToString());
}

std::shared_ptr<arrow::DataType> type_of(ColumnType type) {
  switch (type) {
    case ColumnType::kInteger:
      return arrow::int64();
    case ColumnType::kUnsigned:
      return arrow::uint64();
    case ColumnType::kNumber:
      return arrow::float64();
    case ColumnType::kText:
      break;
  }
  return arrow::utf8();
}

class ParquetWriter : public TableWriter {
 public:
  static Result<std::unique_ptr<TableWriter>> create(const std::string& path,
                                                     const ExportTable& table) {
    // Made by our own file layer first, which refuses to overwrite.
    PARAMEDIC_ASSIGN(const auto file, posix_file_system().create(path));
    PARAMEDIC_TRY(file->close());
    auto writer = std::unique_ptr<ParquetWriter>(new ParquetWriter(path));
    PARAMEDIC_TRY(translated(writer->open(table), path));
    return std::unique_ptr<TableWriter>(std::move(writer));
  }

  Status add(std::span<const Cell> row) override { return translated(append(row), path_); }

  Status close() override {
    PARAMEDIC_TRY(translated(flush(), path_));
    PARAMEDIC_TRY(translated(writer_->Close(), path_));
    return translated(output_->Close(), path_);
  }

 private:
  explicit ParquetWriter(std::string path) : path_(std::move(path)) {}

  arrow::Status open(const ExportTable& table) {
    arrow::FieldVector fields;
    for (const ExportColumn& column : table.columns) {
      fields.push_back(arrow::field(column.name, type_of(column.type), false));
    }
    ARROW_ASSIGN_OR_RAISE(builder_, arrow::RecordBatchBuilder::Make(arrow::schema(fields),
                                                                    arrow::default_memory_pool()));
    ARROW_ASSIGN_OR_RAISE(output_, arrow::io::FileOutputStream::Open(path_));
    const auto properties =
        parquet::WriterProperties::Builder().compression(parquet::Compression::ZSTD)->build();
    ARROW_ASSIGN_OR_RAISE(
        writer_, parquet::arrow::FileWriter::Open(
                     *arrow::schema(fields), arrow::default_memory_pool(), output_, properties));
    return arrow::Status::OK();
  }

  arrow::Status append(std::span<const Cell> row) {
    for (int i = 0; i < static_cast<int>(row.size()); i++) {
      const Cell& cell = row[i];
      if (const auto* text = std::get_if<std::string_view>(&cell)) {
        ARROW_RETURN_NOT_OK(builder_->GetFieldAs<arrow::StringBuilder>(i)->Append(*text));
      } else if (const auto* integer = std::get_if<int64_t>(&cell)) {
        ARROW_RETURN_NOT_OK(builder_->GetFieldAs<arrow::Int64Builder>(i)->Append(*integer));
      } else if (const auto* whole = std::get_if<uint64_t>(&cell)) {
        ARROW_RETURN_NOT_OK(builder_->GetFieldAs<arrow::UInt64Builder>(i)->Append(*whole));
      } else {
        ARROW_RETURN_NOT_OK(
            builder_->GetFieldAs<arrow::DoubleBuilder>(i)->Append(std::get<double>(cell)));
      }
    }
    return ++rows_ < kRowsOfGroup ? arrow::Status::OK() : flush();
  }

  arrow::Status flush() {
    rows_ = 0;
    ARROW_ASSIGN_OR_RAISE(const auto batch, builder_->Flush(true));
    return batch->num_rows() == 0 ? arrow::Status::OK() : writer_->WriteRecordBatch(*batch);
  }

  std::string path_;
  int64_t rows_ = 0;
  std::unique_ptr<arrow::RecordBatchBuilder> builder_;
  std::shared_ptr<arrow::io::FileOutputStream> output_;  // shared with the writer, by its interface
  std::unique_ptr<parquet::arrow::FileWriter> writer_;
};

}  // namespace

Result<std::unique_ptr<TableWriter>> make_parquet_writer(const std::string& path,
                                                         const ExportTable& table) {
  return ParquetWriter::create(path, table);
}

}  // namespace paramedic::cli
