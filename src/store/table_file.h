#pragma once
// The files that export writes, one class a format. One thread.

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "store/columns.h"

namespace paramedic::store {

class TableFile {
 public:
  TableFile() = default;
  TableFile(const TableFile&) = delete;
  TableFile& operator=(const TableFile&) = delete;
  virtual ~TableFile() = default;

  virtual Status write(const std::vector<ColumnBuffer>& columns, size_t rows) = 0;
  // What was written is complete only after it.
  virtual Status close() = 0;
};

// Each makes a new file; `specs` outlives it.
Result<std::unique_ptr<TableFile>> create_csv(const std::string& path,
                                              const std::vector<ColumnSpec>& specs);
Result<std::unique_ptr<TableFile>> create_parquet(const std::string& path,
                                                  const std::vector<ColumnSpec>& specs);

}  // namespace paramedic::store
