#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "store/row_cursor.h"
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

// Batches of a table at these places; holds one segment at a time.
template <TableId kTable>
class PlaceBatches {
 public:
  PlaceBatches(RunFolder& folder, const std::vector<std::string>& stems,
               const std::vector<Place>& places)
      : folder_(folder), stems_(stems), places_(places) {}

  // Damaged ones are passed over.
  std::optional<ParsedBatch> next() {
    while (next_place_ < places_.size()) {
      if (auto batch = open(places_[next_place_++])) return batch;
    }
    return std::nullopt;
  }

 private:
  std::optional<ParsedBatch> open(const Place& place) {
    if (!open_ || place.segment != open_->index) {
      open_.reset();
      std::optional<SegmentReader> segment = folder_.open(stems_[place.segment]);
      if (!segment) return std::nullopt;
      open_ = std::make_unique<Open>(place.segment, std::move(*segment), folder_);
    }
    return open_->decoder.decode(place.entry);
  }

  // The decoder refers to the reader beside it, so they do not move.
  struct Open {
    Open(size_t segment_index, SegmentReader reader, RunFolder& folder)
        : index(segment_index), segment(std::move(reader)), decoder(segment, kTable, folder) {}
    size_t index;
    SegmentReader segment;
    SegmentDecoder decoder;
  };

  RunFolder& folder_;
  const std::vector<std::string>& stems_;
  const std::vector<Place>& places_;
  size_t next_place_ = 0;
  std::unique_ptr<Open> open_;
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
    using Batches = PlaceBatches<Table<Row>::kId>;
    return std::make_unique<TableCursor<Row, Batches>>(
        Batches(folder_, places.stems, places.by_ring[ring_id]), folder_.interner(ring_id));
  }

  void replay_ring(uint64_t ring_id) {
    std::vector<std::unique_ptr<Cursor>> cursors;
    cursors.push_back(cursor<StatsRow>(ring_id));
    cursors.push_back(cursor<HistogramRow>(ring_id));
    cursors.push_back(cursor<ScalarRow>(ring_id));
    cursors.push_back(cursor<EventRow>(ring_id));
    cursors.push_back(cursor<ModelRow>(ring_id));
    cursors.push_back(cursor<CollectiveRow>(ring_id));
    merge(cursors, sink_);
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
