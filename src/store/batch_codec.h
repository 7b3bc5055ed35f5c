#pragma once
// Arrow messages from columns and back, the one place where tables meet Arrow. What Arrow's own
// Status says is translated here. Not thread-safe.

#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "store/columns.h"

namespace paramedic::store {

// A whole IPC message (length prefix, metadata, padding to 8) with the schema of these columns.
Result<std::string> encode_schema(const std::vector<ColumnSpec>& specs);

// A whole IPC message with `rows` rows; `columns` stand in the order of `specs`.
Result<std::string> encode_batch(const std::vector<ColumnSpec>& specs,
                                 const std::vector<ColumnBuffer>& columns, size_t rows);

// Parses the batches of one segment. Nothing in the bytes is trusted: an answer that is ok has all
// columns of the table, each with as many values as rows, offsets rising and inside the values.
class BatchParser {
 public:
  // `schema_message` is that of the segment, empty when it is damaged: then the schema is the one
  // that this program writes. A segment may have more columns than `specs` names.
  static Result<BatchParser> create(const std::vector<ColumnSpec>& specs, Bytes schema_message);
  BatchParser(BatchParser&&) noexcept;
  BatchParser& operator=(BatchParser&&) noexcept;
  ~BatchParser();

  // The views point into `message` where it is aligned.
  Result<ParsedBatch> parse(Bytes message);

 private:
  struct Impl;
  explicit BatchParser(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace paramedic::store
