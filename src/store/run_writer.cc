#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <utility>

#include "base/log.h"
#include "store/batch_codec.h"
#include "store/open_collectives.h"
#include "store/run.h"
#include "store/segment_writer.h"
#include "store/tables.h"

namespace paramedic::store {
namespace {

// A batch is closed at these sizes, though never between rows of one sequence, so that what was
// stored of a ring can be told by one number.
constexpr size_t kBatchRowsMax = 64 << 10;
constexpr size_t kBatchBytesMax = 16 << 20;
// Between two flushes; more than any ring holds.
constexpr uint64_t kBufferedBytesMax = 2ULL << 30;
constexpr size_t kNotesMax = 100;
// A collective that takes longer than this is stored before it is left.
constexpr int64_t kOpenNsMax = 1'000'000'000;
// A table that is thinned goes in pieces of this share of the limit.
constexpr uint64_t kSegmentsInLimit = 16;
constexpr uint64_t kSegmentBytesMin = 64 << 10;

// What --max-disk may remove, in this order; findings, repairs, events, model and scalars never.
constexpr std::array<TableId, 5> kThinned = {TableId::kTensors, TableId::kHistograms,
                                             TableId::kMetrics, TableId::kCollectives,
                                             TableId::kStats};

struct Batch {
  std::vector<ColumnBuffer> columns;
  IndexEntry entry;
  uint64_t bytes = 0;
};

// Where a batch belongs: all of its rows come from one ring.
struct Source {
  int32_t rank = 0;
  uint64_t ring_id = 0;
  auto operator<=>(const Source&) const = default;
};

Origin origin_of(const MetricRow& row) { return {.pid = row.pid, .time_ns = row.time_ns}; }
Origin origin_of(const RepairRow& row) {
  return {.rank = row.rank, .pid = row.pid, .time_ns = row.time_ns};
}
Origin origin_of(const FindingRow& row) { return {.rank = row.rank, .time_ns = row.time_ns}; }
template <typename Row>
const Origin& origin_of(const Row& row) {
  return row.origin;
}

void describe(IndexEntry& entry, const Origin& origin) {
  if (entry.rows == 0) {
    entry.ring_id = origin.ring_id;
    entry.first_sequence = origin.sequence;
    entry.first_time_ns = origin.time_ns;
    entry.min_step = origin.step;
    entry.max_step = origin.step;
  }
  entry.last_sequence = std::max(entry.last_sequence, origin.sequence);
  entry.min_step = std::min(entry.min_step, origin.step);
  entry.max_step = std::max(entry.max_step, origin.step);
  entry.rows++;
}

std::string path_of_info(const std::string& dir) { return dir + "/run.json"; }

class FolderWriter : public RunWriter {
 public:
  FolderWriter(FileSystem& files, std::string dir, WriterOptions options, const Clock& clock)
      : files_(files), clock_(clock), dir_(std::move(dir)), options_(options) {
    options_.segment_bytes_max =
        std::min(options_.segment_bytes_max,
                 std::max(options_.disk_bytes_max / kSegmentsInLimit, kSegmentBytesMin));
  }

  Status recover();

  void on_stats(const StatsRow& row) override { add(row); }
  void on_histogram(const HistogramRow& row) override { add(row); }
  void on_scalar(const ScalarRow& row) override { add(row); }
  void on_event(const EventRow& row) override { add(row); }
  void on_model(const ModelRow& row) override { add(row); }
  void on_tensor_piece(const TensorPieceRow& row) override { add(row); }
  void on_collective(const CollectiveRow& row) override;
  void on_metric(const MetricRow& row) override { add(row); }
  void on_finding(const FindingRow& row) override { add(row); }
  void on_repair(const RepairRow& row) override { add(row); }

  Status flush() override;
  Status seal() override;
  Status write_info(const RunInfo& info) override {
    return files_.write_atomically(path_of_info(dir_), as_bytes(to_text(info.to_json())));
  }
  [[nodiscard]] std::map<uint64_t, uint64_t> stored_sequences() const override { return stored_; }
  [[nodiscard]] uint64_t lost_rows() const override { return lost_rows_; }
  [[nodiscard]] std::vector<std::string> notes() const override { return notes_; }

 private:
  struct Writers {
    std::map<Source, std::deque<Batch>> pending;
    std::map<int32_t, SegmentWriter> segments;  // by rank
    std::map<int32_t, uint32_t> next_segment;   // by rank
    // What stood in the folder before this writer: rows up to there are not stored again.
    std::map<uint64_t, uint64_t> stored_before;
    std::deque<FinishedSegment> finished;  // oldest first
    uint64_t finished_bytes = 0;
  };

  template <typename Row>
  void add(const Row& row);
  void store_open(int64_t before_ns) {
    open_.take(before_ns, [this](const CollectiveRow& row) { add(row); });
  }
  Batch& batch_for(TableId table, const Origin& origin);
  Result<SegmentWriter*> segment_for(TableId table, int32_t rank);
  Status write_batch(TableId table, int32_t rank, const Batch& batch);
  Status write_table(TableId table, std::map<uint64_t, uint64_t>& sequences);
  Status recover_table(TableId table);
  void collect_finished();
  [[nodiscard]] uint64_t disk_bytes() const;
  Status thin();
  void note(std::string text);

  Writers& writers(TableId table) { return tables_[static_cast<size_t>(table)]; }
  [[nodiscard]] std::string folder_of(TableId table) const {
    return dir_ + "/" + table_name(table);
  }

  FileSystem& files_;
  const Clock& clock_;
  std::string dir_;
  WriterOptions options_;
  std::array<Writers, kTableCount> tables_;
  std::map<uint64_t, uint64_t> stored_;
  OpenCollectives open_;
  uint64_t buffered_bytes_ = 0;
  uint64_t lost_rows_ = 0;
  std::vector<std::string> notes_;
  std::array<bool, kTableCount> thinning_noted_ = {};
};

template <typename Row>
void FolderWriter::add(const Row& row) {
  constexpr TableId kTable = Table<Row>::kId;
  const Origin& origin = origin_of(row);
  if constexpr (from_ring(kTable)) {
    const auto& before = writers(kTable).stored_before;
    const auto found = before.find(origin.ring_id);
    if (found != before.end() && origin.sequence <= found->second) return;
  }
  if (buffered_bytes_ >= kBufferedBytesMax) {
    lost_rows_++;
    return;
  }
  Batch& batch = batch_for(kTable, origin);
  RowAppender appender(batch.columns);
  Table<Row>::visit(row, appender);
  describe(batch.entry, origin);
  const uint64_t before = batch.bytes;
  batch.bytes = 0;
  for (const ColumnBuffer& column : batch.columns) batch.bytes += column.values().size();
  buffered_bytes_ += batch.bytes - before;
}

void FolderWriter::on_collective(const CollectiveRow& row) {
  if (row.left_ns == 0) {
    if (!open_.enter(row)) lost_rows_++;
    return;
  }
  open_.leave(row);
  add(row);
}

Batch& FolderWriter::batch_for(TableId table, const Origin& origin) {
  std::deque<Batch>& batches = writers(table).pending[{origin.rank, origin.ring_id}];
  const bool full =
      !batches.empty() &&
      (batches.back().entry.rows >= kBatchRowsMax || batches.back().bytes >= kBatchBytesMax) &&
      (!from_ring(table) || batches.back().entry.last_sequence != origin.sequence);
  if (batches.empty() || full) {
    batches.emplace_back().columns.resize(table_columns(table).size());
  }
  return batches.back();
}

Result<SegmentWriter*> FolderWriter::segment_for(TableId table, int32_t rank) {
  Writers& its = writers(table);
  const auto found = its.segments.find(rank);
  if (found != its.segments.end()) return &found->second;
  PARAMEDIC_TRY(files_.make_folders(folder_of(table)));
  const SegmentLimits limits = {options_.segment_bytes_max, options_.segment_age_ns_max};
  const SegmentName next = {rank, its.next_segment[rank]};
  return &its.segments.try_emplace(rank, files_, clock_, folder_of(table), table, next, limits)
              .first->second;
}

Status FolderWriter::write_batch(TableId table, int32_t rank, const Batch& batch) {
  PARAMEDIC_ASSIGN(SegmentWriter * segment, segment_for(table, rank));
  PARAMEDIC_ASSIGN(const std::string message,
                   encode_batch(table_columns(table), batch.columns, batch.entry.rows));
  return segment->append(message, batch.entry);
}

Status FolderWriter::write_table(TableId table, std::map<uint64_t, uint64_t>& sequences) {
  Status first_problem;
  for (const auto& [source, batches] : writers(table).pending) {
    for (const Batch& batch : batches) {
      const Status status = write_batch(table, source.rank, batch);
      if (!status.ok()) {
        lost_rows_ += batch.entry.rows;
        if (first_problem.ok()) first_problem = status;
      } else if (from_ring(table)) {
        uint64_t& last = sequences[source.ring_id];
        last = std::max(last, batch.entry.last_sequence);
      }
    }
  }
  writers(table).pending.clear();
  for (auto& [rank, segment] : writers(table).segments) {
    const Status status = segment.seal_if_old();
    if (first_problem.ok()) first_problem = status;
  }
  return first_problem;
}

Status FolderWriter::flush() {
  store_open(clock_.wall_ns() - kOpenNsMax);
  std::map<uint64_t, uint64_t> sequences;
  Status first_problem;
  for (size_t table = 0; table < kTableCount; table++) {
    const Status status = write_table(static_cast<TableId>(table), sequences);
    if (first_problem.ok()) first_problem = status;
  }
  buffered_bytes_ = 0;
  for (const auto& [ring_id, sequence] : sequences) {
    uint64_t& last = stored_[ring_id];
    last = std::max(last, sequence);
  }
  const Status thinned = thin();
  return first_problem.ok() ? thinned : first_problem;
}

Status FolderWriter::seal() {
  store_open(std::numeric_limits<int64_t>::max());
  Status first_problem = flush();
  for (Writers& its : tables_) {
    for (auto& [rank, segment] : its.segments) {
      const Status status = segment.seal();
      if (first_problem.ok()) first_problem = status;
    }
  }
  collect_finished();
  return first_problem;
}

void FolderWriter::collect_finished() {
  for (Writers& its : tables_) {
    for (auto& [rank, segment] : its.segments) {
      for (FinishedSegment& finished : segment.take_finished()) {
        its.finished_bytes += finished.bytes;
        its.finished.push_back(std::move(finished));
      }
    }
  }
}

uint64_t FolderWriter::disk_bytes() const {
  uint64_t bytes = 0;
  for (const Writers& its : tables_) {
    bytes += its.finished_bytes;
    for (const auto& [rank, segment] : its.segments) bytes += segment.open_bytes();
  }
  return bytes;
}

Status FolderWriter::thin() {
  collect_finished();
  for (const TableId table : kThinned) {
    Writers& its = writers(table);
    while (disk_bytes() > options_.disk_bytes_max) {
      if (its.finished.empty()) {
        // Only open segments are left of this table; closing them lets them go.
        for (auto& [rank, segment] : its.segments) PARAMEDIC_TRY(segment.seal());
        collect_finished();
        if (its.finished.empty()) break;
      }
      const FinishedSegment oldest = std::move(its.finished.front());
      its.finished.pop_front();
      its.finished_bytes -= oldest.bytes;
      // The data first: readers pass over an index alone, but tell data alone as damage.
      PARAMEDIC_TRY(files_.remove(oldest.stem + std::string(kDataEnding)));
      PARAMEDIC_TRY(files_.remove(oldest.stem + std::string(kIndexEnding)));
      if (!std::exchange(thinning_noted_[static_cast<size_t>(table)], true)) {
        note(fmt::format("the run reached its size limit of {} bytes: the oldest {} are removed",
                         options_.disk_bytes_max, table_name(table)));
      }
    }
  }
  return {};
}

void FolderWriter::note(std::string text) {
  log::warn("{}", text);
  if (notes_.size() < kNotesMax) notes_.push_back(std::move(text));
}

Status FolderWriter::recover() {
  for (size_t table = 0; table < kTableCount; table++) {
    PARAMEDIC_TRY(recover_table(static_cast<TableId>(table)));
  }
  return {};
}

Status FolderWriter::recover_table(TableId table) {
  Writers& its = writers(table);
  const Result<std::vector<std::string>> names = files_.list(folder_of(table));
  if (!names.ok()) {
    return names.status().code() == StatusCode::kNotFound ? Status() : names.status();
  }
  for (const std::string& name : *names) {
    const std::optional<SegmentName> segment = SegmentName::parse(name, kIndexEnding);
    if (!segment) continue;
    uint32_t& next = its.next_segment[segment->rank];
    next = std::max(next, segment->segment + 1);
    const std::string stem = folder_of(table) + "/" + segment->stem();
    PARAMEDIC_ASSIGN(const RecoveredSegment recovered, recover_segment(files_, stem));
    if (!recovered.cut.empty()) note(recovered.cut);
    for (const IndexEntry& entry : recovered.entries) {
      if (entry.rows == 0 || !from_ring(table)) continue;
      uint64_t& last = its.stored_before.try_emplace(entry.ring_id, 0).first->second;
      last = std::max(last, entry.last_sequence);
    }
    its.finished.push_back({stem, recovered.bytes});
    its.finished_bytes += recovered.bytes;
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<RunWriter>> RunWriter::create(FileSystem& files, const RunInfo& info,
                                                     WriterOptions options, const Clock& clock) {
  if (files.exists(info.dir)) {
    return invalid_argument("the run folder " + info.dir + " exists already",
                            "choose another --name");
  }
  PARAMEDIC_TRY(files.make_folders(info.dir));
  // Made exclusively, so that of two programs that want the same name only one gets it.
  PARAMEDIC_ASSIGN(const std::unique_ptr<WritableFile> claim, files.create(path_of_info(info.dir)));
  PARAMEDIC_TRY(claim->append(as_bytes(to_text(info.to_json()))));
  PARAMEDIC_TRY(claim->sync());
  PARAMEDIC_TRY(claim->close());
  return std::unique_ptr<RunWriter>(
      std::make_unique<FolderWriter>(files, info.dir, options, clock));
}

Result<std::unique_ptr<RunWriter>> RunWriter::resume(FileSystem& files, const std::string& dir,
                                                     WriterOptions options, const Clock& clock) {
  PARAMEDIC_ASSIGN(const std::string text, files.read(path_of_info(dir)));
  PARAMEDIC_ASSIGN(const Json json, parse_json(text, path_of_info(dir)));
  PARAMEDIC_ASSIGN(const RunInfo info, RunInfo::from_json(json));
  auto writer = std::make_unique<FolderWriter>(files, dir, options, clock);
  PARAMEDIC_TRY(writer->recover());
  return std::unique_ptr<RunWriter>(std::move(writer));
}

}  // namespace paramedic::store
