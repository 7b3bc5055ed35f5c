#include <tuple>
#include <unordered_map>

#include "store/run_folder.h"

namespace paramedic::store {

std::vector<std::string> RunFolder::segments(TableId table) {
  std::vector<std::string> stems = list_segments(dir_ + "/" + table_name(table), on_damage());
  for (const std::string& part : part_folders(dir_)) {
    const std::vector<std::string> more =
        list_segments(part + "/" + table_name(table), on_damage());
    stems.insert(stems.end(), more.begin(), more.end());
  }
  return stems;
}

std::optional<SegmentReader> RunFolder::open(const std::string& stem) {
  Result<SegmentReader> segment = SegmentReader::open(stem, on_damage());
  if (!segment.ok()) {
    if (segment.status().code() != StatusCode::kNotFound) {
      add_damage({stem + std::string(kDataEnding), 0, segment.status().message()});
    }
    return std::nullopt;
  }
  if (finished_ && segment->tail_bytes() > 0) {
    add_damage({segment->data_path(), segment->tail_offset(),
                fmt::format("a torn tail of {} bytes is ignored", segment->tail_bytes())});
  }
  return std::move(segment).value();
}

void RunFolder::add_damage(Damage damage) {
  constexpr size_t kDamageMax = 1000;
  if (damage_.size() >= kDamageMax) return;
  if (damaged_places_.emplace(damage.file, damage.offset).second) {
    damage_.push_back(std::move(damage));
  }
}

std::optional<ParsedBatch> SegmentDecoder::decode(const IndexEntry& entry) {
  Result<ParsedBatch> batch = parse(entry);
  if (batch.ok()) return std::move(batch).value();
  folder_.add_damage({segment_.data_path(), entry.offset, batch.status().message()});
  return std::nullopt;
}

Result<ParsedBatch> SegmentDecoder::parse(const IndexEntry& entry) {
  if (!parser_) {
    PARAMEDIC_ASSIGN(parser_, BatchParser::create(table_columns(table_), segment_.schema()));
  }
  PARAMEDIC_ASSIGN(const Bytes message, segment_.message(entry));
  PARAMEDIC_ASSIGN(ParsedBatch batch, parser_->parse(message));
  if (batch.rows != entry.rows) {
    return corruption(
        fmt::format("a batch of {} rows where the index says {}", batch.rows, entry.rows));
  }
  return batch;
}

// Calls `on_row` with each stored row of its table until it answers false.
template <typename Row, typename OnRow>
static void scan(RunFolder& folder, const OnRow& on_row) {
  Row row;
  for (const std::string& stem : folder.segments(Table<Row>::kId)) {
    const std::optional<SegmentReader> segment = folder.open(stem);
    if (!segment) continue;
    SegmentDecoder decoder(*segment, Table<Row>::kId, folder);
    for (const IndexEntry& entry : segment->batches()) {
      const std::optional<ParsedBatch> batch = decoder.decode(entry);
      if (!batch) continue;
      Interner& interner = folder.interner(entry.ring_id);
      for (size_t i = 0; i < batch->rows; i++) {
        RowLoader loader(*batch, i, interner);
        Table<Row>::visit(row, loader);
        if (!on_row(row)) return;
      }
    }
  }
}

void RunFolder::load_groups() {
  if (std::exchange(groups_loaded_, true)) return;
  scan<EventRow>(*this, [this](const EventRow& row) {
    if (row.kind == kGroupEvent) interner(row.origin.ring_id).tell_group(row.json);
    return true;
  });
}

namespace {

// Somebody may still append.
bool is_open(const std::string& status) { return status == "running" || status == "paused"; }

class FolderReader : public RunReader {
 public:
  FolderReader(const std::string& dir, RunInfo info)
      : info_(std::move(info)), folder_(dir, !is_open(info_.status)) {}

  [[nodiscard]] const RunInfo& info() const override { return info_; }
  Status read_stats(const std::function<bool(const StatsRow&)>& row) override { return read(row); }
  Status read_histograms(const std::function<bool(const HistogramRow&)>& row) override {
    return read(row);
  }
  Status read_scalars(const std::function<bool(const ScalarRow&)>& row) override {
    return read(row);
  }
  Status read_events(const std::function<bool(const EventRow&)>& row) override { return read(row); }
  Status read_model(const std::function<bool(const ModelRow&)>& row) override { return read(row); }
  Status read_tensor_pieces(const std::function<bool(const TensorPieceRow&)>& row) override {
    return read(row);
  }
  Status read_metrics(const std::function<bool(const MetricRow&)>& row) override {
    return read(row);
  }
  Status read_repairs(const std::function<bool(const RepairRow&)>& row) override {
    return read(row);
  }
  Status read_collectives(const std::function<bool(const CollectiveRow&)>& row) override;
  Result<std::vector<FindingRow>> read_findings() override;
  Status replay(RowSink& sink) override {
    folder_.load_groups();
    return replay_run(folder_, sink);
  }
  [[nodiscard]] const std::vector<Damage>& damage() const override { return folder_.damage(); }

 private:
  template <typename Row>
  Status read(const std::function<bool(const Row&)>& on_row);

  RunInfo info_;
  RunFolder folder_;
};

template <typename Row>
Status FolderReader::read(const std::function<bool(const Row&)>& on_row) {
  scan<Row>(folder_, on_row);
  return {};
}

// A call that was stored as entered is kept back until it is known whether it was left.
Status FolderReader::read_collectives(const std::function<bool(const CollectiveRow&)>& on_row) {
  folder_.load_groups();
  std::map<std::tuple<uint64_t, const GroupInfo*, int64_t>, CollectiveRow> open;
  bool goes_on = true;
  scan<CollectiveRow>(folder_, [&](const CollectiveRow& row) {
    const std::tuple key(row.origin.ring_id, row.group, row.sequence);
    if (row.left_ns == 0) {
      open.insert_or_assign(key, row);
      return true;
    }
    open.erase(key);
    return goes_on = on_row(row);
  });
  for (auto entry = open.begin(); goes_on && entry != open.end(); ++entry) {
    goes_on = on_row(entry->second);
  }
  return {};
}

Result<std::vector<FindingRow>> FolderReader::read_findings() {
  std::vector<FindingRow> findings;
  std::unordered_map<std::string, size_t> by_key;
  PARAMEDIC_TRY(read<FindingRow>([&](const FindingRow& row) {
    const auto [found, is_new] = by_key.try_emplace(row.key, findings.size());
    if (is_new) {
      findings.push_back(row);
    } else if (row.time_ns >= findings[found->second].time_ns) {
      findings[found->second] = row;
    }
    return true;
  }));
  return findings;
}

}  // namespace

std::vector<std::string> part_folders(const std::string& dir) {
  constexpr size_t kPartsMax = 16'384;
  const std::string folder = dir + "/nodes";
  const auto names = posix_file_system().list(folder);
  if (!names.ok()) return {};
  std::vector<std::string> parts;
  for (const std::string& name : *names) {
    if (parts.size() < kPartsMax) parts.push_back(folder + "/" + name);
  }
  return parts;
}

Result<std::unique_ptr<RunReader>> RunReader::open(const std::string& dir) {
  const std::string path = dir + "/run.json";
  const Result<std::string> text = posix_file_system().read(path);
  if (!text.ok()) {
    if (text.status().code() != StatusCode::kNotFound) return text.status();
    return not_found("there is no run in " + dir, "a run folder holds a run.json");
  }
  PARAMEDIC_ASSIGN(const Json json, parse_json(*text, path));
  Result<RunInfo> info = RunInfo::from_json(json);
  if (!info.ok()) {
    const Status& status = info.status();
    return Status(status.code(), path + ": " + status.message(), status.hint());
  }
  return std::unique_ptr<RunReader>(std::make_unique<FolderReader>(dir, std::move(info).value()));
}

}  // namespace paramedic::store
