#pragma once
// Columns of a table without Arrow: what a writer fills and a reader looks at. The Arrow side is
// batch_codec.h. Not thread-safe; a ColumnView is valid as long as the batch it came from.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace paramedic::store {

enum class ColumnType : uint8_t {
  kTime,  // timestamp[ns, UTC]
  kInt32,
  kInt64,
  kUint32,
  kUint64,
  kFloat64,
  kText,        // utf8
  kBytes,       // binary
  kListInt64,   // list<int64>
  kListUint32,  // list<uint32>
  kListUint64,  // list<uint64>
};

constexpr bool has_offsets(ColumnType type) { return type >= ColumnType::kText; }
// Bytes of one value, or of one item of a list.
constexpr size_t value_bytes(ColumnType type) {
  switch (type) {
    case ColumnType::kText:
    case ColumnType::kBytes:
      return 1;
    case ColumnType::kInt32:
    case ColumnType::kUint32:
    case ColumnType::kListUint32:
      return 4;
    default:
      return 8;
  }
}

struct ColumnSpec {
  const char* name;
  ColumnType type;
};

// Values of one column as they will stand in the batch. No column is ever null.
class ColumnBuffer {
 public:
  template <typename T>
  void append(T value) {
    values_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  // One value of a column with offsets: `items` values of `bytes` bytes in all.
  void append_items(const void* data, size_t bytes, size_t items) {
    if (bytes > 0) values_.append(static_cast<const char*>(data), bytes);
    offsets_.push_back(offsets_.back() + static_cast<int32_t>(items));
  }
  // For lists built item by item: closes the value that `items` calls of append() made.
  void end_items(size_t items) {
    offsets_.push_back(offsets_.back() + static_cast<int32_t>(items));
  }
  void clear() {
    values_.clear();
    offsets_.assign(1, 0);
  }
  [[nodiscard]] const std::string& values() const { return values_; }
  [[nodiscard]] const std::vector<int32_t>& offsets() const { return offsets_; }

 private:
  std::string values_;
  std::vector<int32_t> offsets_ = {0};
};

// One column of a batch in memory or in a mapped file. Offsets were checked when the batch was
// parsed: they rise and stay inside `values`.
struct ColumnView {
  const std::byte* values = nullptr;
  const int32_t* offsets = nullptr;  // rows + 1 of them, for types with offsets

  template <typename T>
  [[nodiscard]] T value(size_t row) const {
    return reinterpret_cast<const T*>(values)[row];
  }
  [[nodiscard]] std::string_view text(size_t row) const {
    if (offsets[row] == offsets[row + 1]) return {};
    return {reinterpret_cast<const char*>(values) + offsets[row],
            static_cast<size_t>(offsets[row + 1] - offsets[row])};
  }
  [[nodiscard]] size_t items(size_t row) const {
    return static_cast<size_t>(offsets[row + 1] - offsets[row]);
  }
  template <typename T>
  [[nodiscard]] const T* items_begin(size_t row) const {
    return reinterpret_cast<const T*>(values) + offsets[row];
  }
};

struct ParsedBatch {
  size_t rows = 0;
  std::vector<ColumnView> columns;  // in the order of the table's specs
  // Keeps the Arrow objects alive that the views point into; shared only because it erases their
  // type.
  std::shared_ptr<const void> owner;
};

}  // namespace paramedic::store
