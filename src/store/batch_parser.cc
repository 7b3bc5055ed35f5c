#include <arrow/array/array_base.h>
#include <arrow/array/data.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/message.h>
#include <arrow/ipc/options.h>
#include <arrow/ipc/reader.h>
#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>

#include <fmt/format.h>

#include <utility>

#include "store/arrow_support.h"
#include "store/batch_codec.h"

namespace paramedic::store {
namespace {

// A batch that is not compressed and is aligned needs no memory of its own; a hostile one may
// claim to unpack to anything.
constexpr int64_t kParserBytesMax = 256 << 20;

Result<std::unique_ptr<arrow::ipc::Message>> read_message(Bytes bytes) {
  arrow::io::BufferReader stream(std::make_shared<arrow::Buffer>(
      reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<int64_t>(bytes.size())));
  PARAMEDIC_ASSIGN(std::unique_ptr<arrow::ipc::Message> message,
                   from_arrow(arrow::ipc::ReadMessage(&stream), "malformed message"));
  if (message == nullptr) return corruption("malformed message: it is empty");
  return message;
}

// What a column view points to where Arrow has no buffer, since nothing is stored.
alignas(8) constexpr std::byte kNothing[8] = {};

Status check_offsets(const int32_t* offsets, size_t rows, uint64_t items) {
  int32_t before = 0;
  bool rising = true;
  for (size_t i = 0; i <= rows; i++) {
    rising &= offsets[i] >= before;
    before = offsets[i];
  }
  if (!rising || static_cast<uint64_t>(before) > items) return corruption("offsets out of range");
  return {};
}

Result<ColumnView> view_of(const arrow::ArrayData& array, ColumnType type, size_t rows) {
  ColumnView view;
  const arrow::ArrayData* values = &array;
  size_t values_buffer = 1;
  if (array.offset != 0) return corruption("a batch that begins in the middle of its buffers");
  if (has_offsets(type)) {
    const auto& offsets = array.buffers[1];
    if (offsets == nullptr || static_cast<uint64_t>(offsets->size()) < (rows + 1) * 4) {
      return corruption("offsets are missing");
    }
    view.offsets = reinterpret_cast<const int32_t*>(offsets->data());
    if (array.child_data.empty()) {
      values_buffer = 2;
    } else {
      values = array.child_data[0].get();
      if (values->offset != 0) return corruption("a list that begins in the middle of its items");
    }
  }
  const auto& buffer = values->buffers[values_buffer];
  const uint64_t stored = buffer == nullptr ? 0 : static_cast<uint64_t>(buffer->size());
  view.values = stored == 0 ? kNothing : reinterpret_cast<const std::byte*>(buffer->data());
  const uint64_t items = stored / value_bytes(type);
  if (view.offsets != nullptr) {
    PARAMEDIC_TRY(check_offsets(view.offsets, rows, items));
  } else if (items < rows) {
    return corruption("values are missing");
  }
  return view;
}

}  // namespace

struct BatchParser::Impl {
  std::vector<ColumnSpec> specs;
  std::shared_ptr<arrow::Schema> schema;  // of the segment; Arrow shares schemas
  // Which of the segment's columns are ours, in the order of the specs.
  std::vector<int> columns;
  arrow::CappedMemoryPool pool{arrow::default_memory_pool(), kParserBytesMax};
};

BatchParser::BatchParser(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
BatchParser::BatchParser(BatchParser&&) noexcept = default;
BatchParser& BatchParser::operator=(BatchParser&&) noexcept = default;
BatchParser::~BatchParser() = default;

Result<BatchParser> BatchParser::create(const std::vector<ColumnSpec>& specs,
                                        Bytes schema_message) {
  auto impl = std::make_unique<Impl>();
  impl->specs = specs;
  const std::shared_ptr<arrow::Schema> ours = arrow_schema(specs);
  if (schema_message.empty()) {
    impl->schema = ours;
  } else {
    PARAMEDIC_ASSIGN(const auto message, read_message(schema_message));
    arrow::ipc::DictionaryMemo memo;
    PARAMEDIC_ASSIGN(impl->schema,
                     from_arrow(arrow::ipc::ReadSchema(*message, &memo), "malformed schema"));
  }
  for (const std::shared_ptr<arrow::Field>& field : ours->fields()) {
    const int index = impl->schema->GetFieldIndex(field->name());
    if (index < 0 || !impl->schema->field(index)->type()->Equals(*field->type())) {
      return corruption(fmt::format("the schema has no column {} of type {}", field->name(),
                                    field->type()->ToString()));
    }
    impl->columns.push_back(index);
  }
  return BatchParser(std::move(impl));
}

Result<ParsedBatch> BatchParser::parse(Bytes bytes) {
  PARAMEDIC_ASSIGN(const auto message, read_message(bytes));
  if (message->type() != arrow::ipc::MessageType::RECORD_BATCH) {
    return corruption("the message is no record batch");
  }
  arrow::ipc::IpcReadOptions options = arrow::ipc::IpcReadOptions::Defaults();
  options.use_threads = false;
  options.memory_pool = &impl_->pool;
  options.ensure_alignment = arrow::ipc::Alignment::kDataTypeSpecificAlignment;
  const arrow::ipc::DictionaryMemo memo;
  PARAMEDIC_ASSIGN(std::shared_ptr<arrow::RecordBatch> batch,
                   from_arrow(arrow::ipc::ReadRecordBatch(*message, impl_->schema, &memo, options),
                              "malformed batch"));
  ParsedBatch parsed;
  parsed.rows = static_cast<size_t>(batch->num_rows());
  parsed.columns.reserve(impl_->columns.size());
  for (size_t i = 0; i < impl_->columns.size(); i++) {
    const std::shared_ptr<arrow::ArrayData> array = batch->column_data(impl_->columns[i]);
    if (static_cast<size_t>(array->length) != parsed.rows) {
      return corruption("a column has another length than its batch");
    }
    PARAMEDIC_ASSIGN(const ColumnView view, view_of(*array, impl_->specs[i].type, parsed.rows));
    parsed.columns.push_back(view);
  }
  parsed.owner = std::move(batch);
  return parsed;
}

}  // namespace paramedic::store
