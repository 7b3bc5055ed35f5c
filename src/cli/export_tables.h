#pragma once
// The tables of a run as flat rows of cells, for the formats that other tools read.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"
#include "store/run.h"

namespace paramedic::cli {

enum class ColumnType : uint8_t { kInteger, kUnsigned, kNumber, kText };

// Of the type that its column says, in this order. Text lives as long as the call.
using Cell = std::variant<int64_t, uint64_t, double, std::string_view>;

struct ExportColumn {
  const char* name;
  ColumnType type;
};

// Returns false when it wants no more rows.
using RowVisitor = std::function<bool(std::span<const Cell>)>;

struct ExportTable {
  const char* name;
  std::vector<ExportColumn> columns;
  Status (*read)(store::RunReader& reader, const RowVisitor& row);
};

// stats, scalars, histograms, events, model, metrics, findings.
const std::vector<ExportTable>& export_tables();

// Writes one table; `close` must be called once all rows are there.
class TableWriter {
 public:
  TableWriter() = default;
  TableWriter(const TableWriter&) = delete;
  TableWriter& operator=(const TableWriter&) = delete;
  virtual ~TableWriter() = default;
  virtual Status add(std::span<const Cell> row) = 0;
  virtual Status close() = 0;
};

// Both create `path`, which must not exist.
// RFC 4180 with LF line ends; numbers in the shortest form that reads back exactly.
Result<std::unique_ptr<TableWriter>> make_csv_writer(const std::string& path,
                                                     const ExportTable& table);
Result<std::unique_ptr<TableWriter>> make_parquet_writer(const std::string& path,
                                                         const ExportTable& table);

}  // namespace paramedic::cli
