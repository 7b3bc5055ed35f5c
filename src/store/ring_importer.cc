#include <map>
#include <utility>

#include "base/utf8.h"
#include "record/ring_reader.h"
#include "store/run.h"
#include "store/tables.h"

namespace paramedic::store {
namespace {

// The kind of event that carries a fact about the model, and becomes a row of the model table.
constexpr std::string_view kModelEvent = "model";
// Calls that are entered and not left; of a job that never waits for some the first are let go.
constexpr size_t kOpenMax = 64 << 10;

// Nothing when the payload is not what adapters write: the event is then kept as it is.
std::optional<ModelRow> model_row(const Origin& origin, std::string_view json) {
  const Result<Json> parsed = parse_json(json, "model event");
  if (!parsed.ok() || !parsed->is_object() || string_or(*parsed, "kind", "").empty()) {
    return std::nullopt;
  }
  ModelRow row;
  row.origin = origin;
  row.fit = static_cast<int32_t>(integer_or(*parsed, "fit", 0));
  row.kind = string_or(*parsed, "kind", "");
  row.name = string_or(*parsed, "name", "");
  row.class_name = string_or(*parsed, "class", "");
  row.file = string_or(*parsed, "file", "");
  row.line = static_cast<int32_t>(integer_or(*parsed, "line", 0));
  row.function = string_or(*parsed, "function", "");
  const auto detail = parsed->find("detail");
  row.detail = detail != parsed->end() && detail->is_object() ? to_text(*detail) : "{}";
  return row;
}

class RecordImporter : public RingImporter {
 public:
  RecordImporter(std::unique_ptr<record::RingReader> reader, std::optional<uint64_t> skip_to)
      : reader_(std::move(reader)), skip_to_(skip_to) {
    const record::RingState state = reader_->state();
    origin_.rank = state.rank;
    origin_.pid = state.pid;
    origin_.ring_id = state.ring_id;
  }

  Result<uint64_t> drain(RowSink& sink) override {
    return reader_->read([&](const record::Record& record) {
      if (skip_to_ && record.sequence <= *skip_to_) return;
      origin_.sequence = record.sequence;
      origin_.time_ns = record.time_ns;
      origin_.step = record.step;
      origin_.mode = record.mode;
      pass_on(record, sink);
    });
  }

  void acknowledge() override { reader_->acknowledge(); }
  [[nodiscard]] State state() const override;

 private:
  void pass_on(const record::Record& record, RowSink& sink);
  void pass_stats(const record::Record& record, RowSink& sink);
  void pass_event(const record::Record& record, RowSink& sink);
  void pass_entered(const record::Record& record, RowSink& sink);
  void pass_left(const record::Record& record, RowSink& sink);
  // Rules compare addresses, so a tensor that was defined twice is still one object.
  const TensorInfo* tensor(uint32_t id);
  const std::string* name(uint32_t id);
  const CallSite* call_site(uint32_t id);

  std::unique_ptr<record::RingReader> reader_;
  std::optional<uint64_t> skip_to_;
  Origin origin_;
  Interner interner_;
  std::vector<const TensorInfo*> tensors_;                      // by id
  std::vector<const std::string*> names_;                       // by id
  std::map<std::pair<uint32_t, int64_t>, CollectiveRow> open_;  // by group's id and call
};

const TensorInfo* RecordImporter::tensor(uint32_t id) {
  if (id >= tensors_.size()) tensors_.resize(reader_->definitions().size());
  const TensorInfo*& info = tensors_[id];
  if (info == nullptr) {
    const record::Definition& definition = reader_->definitions()[id];
    const std::string_view sizes = {reinterpret_cast<const char*>(definition.sizes.data()),
                                    definition.sizes.size() * sizeof(int64_t)};
    // As the store will write it, so that a replay sees the same name as the rules do live.
    info = interner_.tensor(valid_utf8(definition.name), kind_name(definition.kind),
                            stats::dtype_name(definition.dtype), sizes);
  }
  return info;
}

const std::string* RecordImporter::name(uint32_t id) {
  if (id >= names_.size()) names_.resize(reader_->definitions().size());
  const std::string*& found = names_[id];
  if (found == nullptr) found = interner_.name(valid_utf8(reader_->definitions()[id].name));
  return found;
}

// Its definition is a function, a newline and a file.
const CallSite* RecordImporter::call_site(uint32_t id) {
  if (id == record::kNoDefinition) return nullptr;
  const record::Definition& definition = reader_->definitions()[id];
  const size_t end = std::min(definition.name.find('\n'), definition.name.size());
  const std::string_view file = std::string_view(definition.name).substr(end);
  const int64_t line = definition.sizes.empty() ? 0 : definition.sizes[0];
  return interner_.call_site(valid_utf8(file.empty() ? file : file.substr(1)),
                             static_cast<int32_t>(std::min<int64_t>(line, INT32_MAX)),
                             valid_utf8(std::string_view(definition.name).substr(0, end)));
}

void RecordImporter::pass_on(const record::Record& record, RowSink& sink) {
  switch (record.type) {
    case record::RecordType::kStats:
      pass_stats(record, sink);
      break;
    case record::RecordType::kScalars:
      for (const record::ScalarItem& item : record.scalars) {
        sink.on_scalar({origin_, name(item.id), item.value});
      }
      break;
    case record::RecordType::kEvent:
      pass_event(record, sink);
      break;
    case record::RecordType::kHistogram:
      sink.on_histogram({origin_, tensor(record.id), {record.bins.begin(), record.bins.end()}});
      break;
    case record::RecordType::kTensor:
      sink.on_tensor_piece({origin_,
                            tensor(record.id),
                            record.total_bytes,
                            record.offset_bytes,
                            {record.piece.begin(), record.piece.end()}});
      break;
    case record::RecordType::kCollectiveEntered:
      pass_entered(record, sink);
      break;
    case record::RecordType::kCollectiveLeft:
      pass_left(record, sink);
      break;
    case record::RecordType::kPadding:
      break;
  }
}

void RecordImporter::pass_entered(const record::Record& record, RowSink& sink) {
  const record::CollectiveItem& item = record.collective;
  CollectiveRow row;
  row.origin = origin_;
  row.group = interner_.group(valid_utf8(reader_->definitions()[item.group].name), "", "");
  row.sequence = item.number;
  row.operation = *name(item.operation);
  row.dtype = static_cast<stats::DType>(item.dtype);
  row.sizes.assign(record.sizes.begin(), record.sizes.end());
  row.bytes = item.bytes;
  row.peer = item.peer;
  row.asynchronous = item.asynchronous != 0;
  row.where = call_site(item.where);
  row.entered_ns = record.time_ns;
  sink.on_collective(row);
  if (open_.size() >= kOpenMax) open_.erase(open_.begin());
  open_.insert_or_assign({item.group, item.number}, std::move(row));
}

// Of a call whose beginning was dropped nothing is known but that it is over.
void RecordImporter::pass_left(const record::Record& record, RowSink& sink) {
  const auto entered = open_.find({record.left.group, record.left.number});
  if (entered == open_.end()) return;
  entered->second.origin = origin_;
  entered->second.left_ns = record.time_ns;
  sink.on_collective(entered->second);
  open_.erase(entered);
}

void RecordImporter::pass_stats(const record::Record& record, RowSink& sink) {
  StatsRow row;
  row.origin = origin_;
  for (const record::StatsItem& item : record.stats) {
    row.tensor = tensor(item.id);
    row.stats = item.stats;
    row.units = item.units;
    row.units_dead = item.units_dead;
    row.units_frozen = item.units_frozen;
    row.unit_batches = item.unit_batches;
    row.outside = item.outside;
    sink.on_stats(row);
  }
}

void RecordImporter::pass_event(const record::Record& record, RowSink& sink) {
  const std::string json = valid_utf8(record.event_json);
  if (record.event_kind == kModelEvent) {
    if (const std::optional<ModelRow> row = model_row(origin_, json)) {
      sink.on_model(*row);
      return;
    }
  }
  if (record.event_kind == kGroupEvent) interner_.tell_group(json);
  sink.on_event({origin_, valid_utf8(record.event_kind), json});
}

RingImporter::State RecordImporter::state() const {
  const record::RingState ring = reader_->state();
  State state;
  state.path = reader_->path();
  state.ring_id = ring.ring_id;
  state.pid = ring.pid;
  state.rank = ring.rank;
  state.world_size = ring.world_size;
  state.closed = ring.closed;
  state.last_step = ring.last_step;
  state.last_step_time_ns = ring.last_step_time_ns;
  state.dropped_records = ring.dropped_records;
  state.overhead_percent = ring.overhead_ppm / 1e4;
  state.fill = ring.fill;
  return state;
}

}  // namespace

Result<std::unique_ptr<RingImporter>> RingImporter::open(const std::string& path,
                                                         std::optional<uint64_t> skip_to) {
  PARAMEDIC_ASSIGN(std::unique_ptr<record::RingReader> reader, record::RingReader::open(path));
  return std::unique_ptr<RingImporter>(
      std::make_unique<RecordImporter>(std::move(reader), skip_to));
}

}  // namespace paramedic::store
