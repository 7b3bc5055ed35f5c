#pragma once
// Rows of several tables merged back into the order in which a process recorded them: what replay
// (a whole run) and the tail (what has been added to one) share. Not thread-safe.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "store/columns.h"
#include "store/rows.h"
#include "store/tables.h"

namespace paramedic::store {

inline void pass(RowSink& sink, const StatsRow& row) { sink.on_stats(row); }
inline void pass(RowSink& sink, const HistogramRow& row) { sink.on_histogram(row); }
inline void pass(RowSink& sink, const ScalarRow& row) { sink.on_scalar(row); }
inline void pass(RowSink& sink, const EventRow& row) { sink.on_event(row); }
inline void pass(RowSink& sink, const ModelRow& row) { sink.on_model(row); }
inline void pass(RowSink& sink, const CollectiveRow& row) { sink.on_collective(row); }

// The rows of one ring in one table, in order.
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

// `Batches` answers one batch after another, then nothing, by `next()`; a batch is valid until the
// next one is asked for.
template <typename Row, typename Batches>
class TableCursor : public Cursor {
 public:
  TableCursor(Batches batches, Interner& interner)
      : batches_(std::move(batches)), interner_(interner) {
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
      batch_.reset();
      at_ = 0;
      batch_ = batches_.next();
      if (!batch_) {
        sequence_ = kEnd;
        return;
      }
    }
    RowLoader loader(*batch_, at_++, interner_);
    Table<Row>::visit(row_, loader);
    sequence_ = std::min(row_.origin.sequence, kEnd - 1);
  }

  Batches batches_;  // before the batch, which points into its memory
  Interner& interner_;
  std::optional<ParsedBatch> batch_;
  size_t at_ = 0;
  Row row_;
};

inline void merge(const std::vector<std::unique_ptr<Cursor>>& cursors, RowSink& sink) {
  while (!cursors.empty()) {
    const auto next = std::min_element(
        cursors.begin(), cursors.end(),
        [](const auto& a, const auto& b) { return a->sequence() < b->sequence(); });
    if ((*next)->sequence() == Cursor::kEnd) return;
    (*next)->emit(sink);
  }
}

}  // namespace paramedic::store
