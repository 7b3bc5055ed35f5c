#include <algorithm>
#include <limits>
#include <map>
#include <memory>

#include "store/run_folder.h"

namespace paramedic::store {
namespace {

// Where a batch stands.
struct Place {
  size_t segment;  // index into the table's stems
  IndexEntry entry;
};

struct TablePlaces {
  std::vector<std::string> stems;
  std::map<uint64_t, std::vector<Place>> by_ring;
};

void pass(RowSink& sink, const StatsRow& row) { sink.on_stats(row); }
void pass(RowSink& sink, const HistogramRow& row) { sink.on_histogram(row); }
void pass(RowSink& sink, const ScalarRow& row) { sink.on_scalar(row); }
void pass(RowSink& sink, const EventRow& row) { sink.on_event(row); }
void pass(RowSink& sink, const ModelRow& row) { sink.on_model(row); }
void pass(RowSink& sink, const CollectiveRow& row) { sink.on_collective(row); }

// The rows of one ring in one table, in order; holds one segment and one decoded batch at a time.
class Cursor {
 public:
  static constexpr uint64_t kEnd = std::numeric_limits<uint64_t>::max();

  Cursor() = default;
  Cursor(const Cursor&) = delete;
  Cursor& operator=(const Cursor&) = delete;
  virtual ~Cursor() = default;
  [[nodiscard]] uint64_t sequence() const { return sequence_; }  // kEnd after the last row
  // Passes on all rows of the current sequence.
  virtual void emit(RowSink& sink) = 0;

 protected:
  uint64_t sequence_ = kEnd;
};

template <typename Row>
class TableCursor : public Cursor {
 public:
  TableCursor(RunFolder& folder, const std::vector<std::string>& stems,
              const std::vector<Place>& places, Interner& interner)
      : folder_(folder), stems_(stems), places_(places), interner_(interner) {
    load();
  }

  void emit(RowSink& sink) override {
    const uint64_t current = sequence_;
    while (sequence_ == current && sequence_ != kEnd) {
      pass(sink, row_);
      load();
    }
  }

 private:
  // Makes `row_` the next row, or `sequence_` the end.
  void load() {
    while (!batch_ || at_ >= batch_->rows) {
      if (next_place_ >= places_.size()) {
        sequence_ = kEnd;
        return;
      }
      open(places_[next_place_++]);
    }
    RowLoader loader(*batch_, at_++, interner_);
    Table<Row>::visit(row_, loader);
    sequence_ = std::min(row_.origin.sequence, kEnd - 1);
  }

  void open(const Place& place) {
    batch_.reset();
    at_ = 0;
    if (!decoder_ || place.segment != segment_index_) {
      decoder_.reset();
      segment_ = folder_.open(stems_[place.segment]);
      segment_index_ = place.segment;
      if (segment_) decoder_.emplace(*segment_, Table<Row>::kId, folder_);
    }
    if (decoder_) batch_ = decoder_->decode(place.entry);
  }

  RunFolder& folder_;
  const std::vector<std::string>& stems_;
  const std::vector<Place>& places_;
  Interner& interner_;
  size_t next_place_ = 0;
  size_t segment_index_ = 0;
  // In this order: the batch points into the decoder's memory, both into the segment's.
  std::optional<SegmentReader> segment_;
  std::optional<SegmentDecoder> decoder_;
  std::optional<ParsedBatch> batch_;
  size_t at_ = 0;
  Row row_;
};

class Replay {
 public:
  Replay(RunFolder& folder, RowSink& sink) : folder_(folder), sink_(sink) {}

  void run() {
    list<StatsRow>();
    list<HistogramRow>();
    list<ScalarRow>();
    list<EventRow>();
    list<ModelRow>();
    list<CollectiveRow>();
    std::vector<std::pair<int64_t, uint64_t>> rings;
    for (const auto& [ring_id, time_ns] : first_time_ns_) rings.emplace_back(time_ns, ring_id);
    std::sort(rings.begin(), rings.end());
    for (const auto& [time_ns, ring_id] : rings) replay_ring(ring_id);
  }

 private:
  template <typename Row>
  void list() {
    constexpr TableId kTable = Table<Row>::kId;
    TablePlaces& places = tables_[kTable];
    places.stems = folder_.segments(kTable);
    for (size_t i = 0; i < places.stems.size(); i++) {
      const std::optional<SegmentReader> segment = folder_.open(places.stems[i]);
      if (!segment) continue;
      for (const IndexEntry& entry : segment->batches()) {
        places.by_ring[entry.ring_id].push_back({i, entry});
        int64_t& first =
            first_time_ns_.try_emplace(entry.ring_id, entry.first_time_ns).first->second;
        first = std::min(first, entry.first_time_ns);
      }
    }
  }

  template <typename Row>
  std::unique_ptr<Cursor> cursor(uint64_t ring_id) {
    TablePlaces& places = tables_[Table<Row>::kId];
    return std::make_unique<TableCursor<Row>>(folder_, places.stems, places.by_ring[ring_id],
                                              folder_.interner(ring_id));
  }

  void replay_ring(uint64_t ring_id) {
    std::vector<std::unique_ptr<Cursor>> cursors;
    cursors.push_back(cursor<StatsRow>(ring_id));
    cursors.push_back(cursor<HistogramRow>(ring_id));
    cursors.push_back(cursor<ScalarRow>(ring_id));
    cursors.push_back(cursor<EventRow>(ring_id));
    cursors.push_back(cursor<ModelRow>(ring_id));
    cursors.push_back(cursor<CollectiveRow>(ring_id));
    while (true) {
      const auto next = std::min_element(
          cursors.begin(), cursors.end(),
          [](const auto& a, const auto& b) { return a->sequence() < b->sequence(); });
      if ((*next)->sequence() == Cursor::kEnd) return;
      (*next)->emit(sink_);
    }
  }

  RunFolder& folder_;
  RowSink& sink_;
  std::map<TableId, TablePlaces> tables_;
  std::map<uint64_t, int64_t> first_time_ns_;
};

}  // namespace

Status replay_run(RunFolder& folder, RowSink& sink) {
  Replay(folder, sink).run();
  return {};
}

}  // namespace paramedic::store
