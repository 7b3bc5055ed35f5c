#include <arrow/array/data.h>
#include <arrow/buffer.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>

#include "store/arrow_support.h"
#include "store/batch_codec.h"

namespace paramedic::store {
namespace {

// The buffer only borrows; the columns outlive the serialisation.
template <typename Container>
std::shared_ptr<arrow::Buffer> borrow(const Container& values) {
  return std::make_shared<arrow::Buffer>(reinterpret_cast<const uint8_t*>(values.data()),
                                         static_cast<int64_t>(values.size() * sizeof(values[0])));
}

std::shared_ptr<arrow::ArrayData> array_of(const ColumnSpec& spec, const ColumnBuffer& column,
                                           int64_t rows) {
  const std::shared_ptr<arrow::DataType> type = arrow_type(spec.type);
  const std::shared_ptr<arrow::Buffer> values = borrow(column.values());
  if (!has_offsets(spec.type)) {
    return arrow::ArrayData::Make(type, rows, {nullptr, values}, /*null_count=*/0);
  }
  const std::shared_ptr<arrow::Buffer> offsets = borrow(column.offsets());
  if (type->num_fields() == 0) {
    return arrow::ArrayData::Make(type, rows, {nullptr, offsets, values}, /*null_count=*/0);
  }
  const auto items = arrow::ArrayData::Make(type->field(0)->type(), column.offsets().back(),
                                            {nullptr, values}, /*null_count=*/0);
  return arrow::ArrayData::Make(type, rows, {nullptr, offsets}, {items}, /*null_count=*/0);
}

}  // namespace

std::shared_ptr<arrow::DataType> arrow_type(ColumnType type) {
  const auto list_of = [](const std::shared_ptr<arrow::DataType>& item) {
    return arrow::list(arrow::field("item", item, /*nullable=*/false));
  };
  switch (type) {
    case ColumnType::kTime:
      return arrow::timestamp(arrow::TimeUnit::NANO, "UTC");
    case ColumnType::kInt32:
      return arrow::int32();
    case ColumnType::kInt64:
      return arrow::int64();
    case ColumnType::kUint32:
      return arrow::uint32();
    case ColumnType::kUint64:
      return arrow::uint64();
    case ColumnType::kFloat64:
      return arrow::float64();
    case ColumnType::kText:
      return arrow::utf8();
    case ColumnType::kBytes:
      return arrow::binary();
    case ColumnType::kListInt64:
      return list_of(arrow::int64());
    case ColumnType::kListUint32:
      return list_of(arrow::uint32());
    case ColumnType::kListUint64:
      return list_of(arrow::uint64());
  }
  PARAMEDIC_CHECK(false);
}

std::shared_ptr<arrow::Schema> arrow_schema(const std::vector<ColumnSpec>& specs) {
  arrow::FieldVector fields;
  fields.reserve(specs.size());
  for (const ColumnSpec& spec : specs) {
    fields.push_back(arrow::field(spec.name, arrow_type(spec.type), /*nullable=*/false));
  }
  return arrow::schema(std::move(fields));
}

Result<std::string> encode_schema(const std::vector<ColumnSpec>& specs) {
  PARAMEDIC_ASSIGN(const std::shared_ptr<arrow::Buffer> message,
                   from_arrow(arrow::ipc::SerializeSchema(*arrow_schema(specs)),
                              "store: cannot encode a schema"));
  return message->ToString();
}

std::shared_ptr<arrow::RecordBatch> arrow_batch(const std::vector<ColumnSpec>& specs,
                                                const std::vector<ColumnBuffer>& columns,
                                                size_t rows) {
  PARAMEDIC_CHECK(specs.size() == columns.size());
  std::vector<std::shared_ptr<arrow::ArrayData>> arrays;
  arrays.reserve(specs.size());
  for (size_t i = 0; i < specs.size(); i++) {
    arrays.push_back(array_of(specs[i], columns[i], static_cast<int64_t>(rows)));
  }
  return arrow::RecordBatch::Make(arrow_schema(specs), static_cast<int64_t>(rows),
                                  std::move(arrays));
}

Result<std::string> encode_batch(const std::vector<ColumnSpec>& specs,
                                 const std::vector<ColumnBuffer>& columns, size_t rows) {
  const auto batch = arrow_batch(specs, columns, rows);
  arrow::ipc::IpcWriteOptions options = arrow::ipc::IpcWriteOptions::Defaults();
  options.use_threads = false;
  PARAMEDIC_ASSIGN(const std::shared_ptr<arrow::Buffer> message,
                   from_arrow(arrow::ipc::SerializeRecordBatch(*batch, options),
                              "store: cannot encode a batch"));
  return message->ToString();
}

}  // namespace paramedic::store
