#pragma once
// What the .cc files that see Arrow share. Never included by another header: Arrow costs seconds a
// file.

#include <arrow/result.h>
#include <arrow/status.h>
#include <arrow/type.h>
#include <arrow/type_fwd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "store/columns.h"

namespace paramedic::store {

inline Status from_arrow(const arrow::Status& status, const std::string& what) {
  if (status.ok()) return {};
  const std::string message = what + ": " + status.message();
  if (status.IsIOError()) return io_error(message);
  if (status.IsOutOfMemory() || status.IsCapacityError()) return exhausted(message);
  return corruption(message);
}

template <typename T>
Result<T> from_arrow(arrow::Result<T> result, const std::string& what) {
  if (!result.ok()) return from_arrow(result.status(), what);
  return std::move(result).ValueUnsafe();
}

std::shared_ptr<arrow::DataType> arrow_type(ColumnType type);
std::shared_ptr<arrow::Schema> arrow_schema(const std::vector<ColumnSpec>& specs);
// Borrows the columns' memory.
std::shared_ptr<arrow::RecordBatch> arrow_batch(const std::vector<ColumnSpec>& specs,
                                                const std::vector<ColumnBuffer>& columns,
                                                size_t rows);

}  // namespace paramedic::store
