#include <fmt/format.h>

#include <cmath>

#include "base/file.h"
#include "cli/export_tables.h"

namespace paramedic::cli {
namespace {

constexpr size_t kBufferBytes = 1 << 18;

void append_text(std::string& line, std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    line += text;
    return;
  }
  line += '"';
  for (const char c : text) {
    if (c == '"') line += '"';
    line += c;
  }
  line += '"';
}

void append_cell(std::string& line, const Cell& cell) {
  if (const auto* text = std::get_if<std::string_view>(&cell)) {
    append_text(line, *text);
  } else if (const auto* integer = std::get_if<int64_t>(&cell)) {
    fmt::format_to(std::back_inserter(line), "{}", *integer);
  } else if (const auto* whole = std::get_if<uint64_t>(&cell)) {
    fmt::format_to(std::back_inserter(line), "{}", *whole);
  } else {
    fmt::format_to(std::back_inserter(line), "{}", std::get<double>(cell));
  }
}

class CsvWriter : public TableWriter {
 public:
  CsvWriter(std::unique_ptr<WritableFile> file, const ExportTable& table) : file_(std::move(file)) {
    for (const ExportColumn& column : table.columns) {
      if (!buffer_.empty()) buffer_ += ',';
      buffer_ += column.name;
    }
    buffer_ += '\n';
  }

  Status add(std::span<const Cell> row) override {
    for (size_t i = 0; i < row.size(); i++) {
      if (i > 0) buffer_ += ',';
      append_cell(buffer_, row[i]);
    }
    buffer_ += '\n';
    return buffer_.size() < kBufferBytes ? Status() : flush();
  }

  Status close() override {
    PARAMEDIC_TRY(flush());
    return file_->close();
  }

 private:
  Status flush() {
    const Status status = file_->append(as_bytes(buffer_));
    buffer_.clear();
    return status;
  }

  std::unique_ptr<WritableFile> file_;
  std::string buffer_;
};

}  // namespace

Result<std::unique_ptr<TableWriter>> make_csv_writer(const std::string& path,
                                                     const ExportTable& table) {
  PARAMEDIC_ASSIGN(auto file, posix_file_system().create(path));
  return std::unique_ptr<TableWriter>(std::make_unique<CsvWriter>(std::move(file), table));
}

}  // namespace paramedic::cli
