#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cstring>
#include <ctime>
#include <iterator>
#include <string_view>

#include "base/file.h"
#include "store/table_file.h"

namespace paramedic::store {
namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;
constexpr size_t kBufferBytesMax = 1 << 20;

template <typename T>
T value_at(const ColumnBuffer& column, size_t index) {
  T value;
  std::memcpy(&value, column.values().data() + index * sizeof(T), sizeof(T));
  return value;
}

void add_time(std::string& out, int64_t time_ns) {
  int64_t seconds = time_ns / kNsPerSecond;
  int64_t rest = time_ns % kNsPerSecond;
  if (rest < 0) {
    rest += kNsPerSecond;
    seconds--;
  }
  const std::time_t time = seconds;
  std::tm utc{};
  ::gmtime_r(&time, &utc);
  fmt::format_to(std::back_inserter(out), "{:%Y-%m-%dT%H:%M:%S}.{:09}Z", utc, rest);
}

void add_text(std::string& out, std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    out += text;
    return;
  }
  out += '"';
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  out += '"';
}

template <typename T>
void add_list(std::string& out, const ColumnBuffer& column, size_t begin, size_t end) {
  std::string list = "[";
  for (size_t i = begin; i < end; i++) {
    if (i > begin) list += ", ";
    list += std::to_string(value_at<T>(column, i));
  }
  add_text(out, list + "]");
}

void add_value(std::string& out, ColumnType type, const ColumnBuffer& column, size_t row) {
  const auto begin = has_offsets(type) ? static_cast<size_t>(column.offsets()[row]) : 0;
  const auto end = has_offsets(type) ? static_cast<size_t>(column.offsets()[row + 1]) : 0;
  const std::string_view bytes(column.values());
  switch (type) {
    case ColumnType::kTime:
      return add_time(out, value_at<int64_t>(column, row));
    case ColumnType::kInt32:
      return void(out += std::to_string(value_at<int32_t>(column, row)));
    case ColumnType::kInt64:
      return void(out += std::to_string(value_at<int64_t>(column, row)));
    case ColumnType::kUint32:
      return void(out += std::to_string(value_at<uint32_t>(column, row)));
    case ColumnType::kUint64:
      return void(out += std::to_string(value_at<uint64_t>(column, row)));
    case ColumnType::kFloat64:
      fmt::format_to(std::back_inserter(out), "{}", value_at<double>(column, row));
      return;
    case ColumnType::kText:
      return add_text(out, bytes.substr(begin, end - begin));
    case ColumnType::kBytes:
      for (size_t i = begin; i < end; i++) {
        fmt::format_to(std::back_inserter(out), "{:02x}", static_cast<unsigned char>(bytes[i]));
      }
      return;
    case ColumnType::kListInt64:
      return add_list<int64_t>(out, column, begin, end);
    case ColumnType::kListUint32:
      return add_list<uint32_t>(out, column, begin, end);
    case ColumnType::kListUint64:
      return add_list<uint64_t>(out, column, begin, end);
  }
}

class CsvFile : public TableFile {
 public:
  CsvFile(std::unique_ptr<WritableFile> file, const std::vector<ColumnSpec>& specs)
      : file_(std::move(file)), specs_(specs) {
    for (const ColumnSpec& spec : specs_) {
      if (!buffer_.empty()) buffer_ += ',';
      buffer_ += spec.name;
    }
    buffer_ += "\r\n";
  }

  Status write(const std::vector<ColumnBuffer>& columns, size_t rows) override {
    for (size_t row = 0; row < rows; row++) {
      for (size_t i = 0; i < specs_.size(); i++) {
        if (i > 0) buffer_ += ',';
        add_value(buffer_, specs_[i].type, columns[i], row);
      }
      buffer_ += "\r\n";
      if (buffer_.size() >= kBufferBytesMax) PARAMEDIC_TRY(empty_buffer());
    }
    return {};
  }

  Status close() override {
    PARAMEDIC_TRY(empty_buffer());
    return file_->close();
  }

 private:
  Status empty_buffer() {
    PARAMEDIC_TRY(file_->append(as_bytes(buffer_)));
    buffer_.clear();
    return {};
  }

  std::unique_ptr<WritableFile> file_;
  const std::vector<ColumnSpec>& specs_;
  std::string buffer_;
};

}  // namespace

Result<std::unique_ptr<TableFile>> create_csv(const std::string& path,
                                              const std::vector<ColumnSpec>& specs) {
  PARAMEDIC_ASSIGN(std::unique_ptr<WritableFile> file, posix_file_system().create(path));
  return std::unique_ptr<TableFile>(std::make_unique<CsvFile>(std::move(file), specs));
}

}  // namespace paramedic::store
