#include <arrow/io/file.h>
#include <arrow/record_batch.h>
#include <parquet/arrow/writer.h>
#include <parquet/properties.h>

#include <utility>

#include "base/file.h"
#include "store/arrow_support.h"
#include "store/table_file.h"

namespace paramedic::store {
namespace {

class ParquetFile : public TableFile {
 public:
  ParquetFile(std::string path, const std::vector<ColumnSpec>& specs)
      : path_(std::move(path)), specs_(specs) {}

  Status open() {
    // Made here, exclusively and private; Arrow alone would write over what is there.
    PARAMEDIC_ASSIGN(const std::unique_ptr<WritableFile> made, posix_file_system().create(path_));
    PARAMEDIC_ASSIGN(out_, from_arrow(arrow::io::FileOutputStream::Open(path_, /*append=*/true),
                                      "cannot open " + path_));
    const auto properties =
        parquet::WriterProperties::Builder().compression(parquet::Compression::ZSTD)->build();
    PARAMEDIC_ASSIGN(writer_, from_arrow(parquet::arrow::FileWriter::Open(
                                             *arrow_schema(specs_), arrow::default_memory_pool(),
                                             out_, properties),
                                         "cannot write " + path_));
    return {};
  }

  Status write(const std::vector<ColumnBuffer>& columns, size_t rows) override {
    const auto batch = arrow_batch(specs_, columns, rows);
    PARAMEDIC_TRY(from_arrow(writer_->NewBufferedRowGroup(), "cannot write " + path_));
    return from_arrow(writer_->WriteRecordBatch(*batch), "cannot write " + path_);
  }

  Status close() override {
    PARAMEDIC_TRY(from_arrow(writer_->Close(), "cannot write " + path_));
    return from_arrow(out_->Close(), "cannot write " + path_);
  }

 private:
  std::string path_;
  const std::vector<ColumnSpec>& specs_;
  std::shared_ptr<arrow::io::FileOutputStream> out_;  // shared with the writer, as Arrow wants it
  std::unique_ptr<parquet::arrow::FileWriter> writer_;
};

}  // namespace

Result<std::unique_ptr<TableFile>> create_parquet(const std::string& path,
                                                  const std::vector<ColumnSpec>& specs) {
  auto file = std::make_unique<ParquetFile>(path, specs);
  PARAMEDIC_TRY(file->open());
  return std::unique_ptr<TableFile>(std::move(file));
}

}  // namespace paramedic::store
