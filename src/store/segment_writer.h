#pragma once
// Appends messages to the segments of one table and rank: a data file (.arrows) and its index
// (.idx). A segment is sealed by size or age, then never touched again. After a failed append the
// segment is cut back to its last whole message, or left as it is and a new one begun, so that
// torn bytes never stand before good ones. One thread; the file system and clock outlive it.

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "store/segment_format.h"
#include "store/tables.h"

namespace paramedic::store {

struct SegmentLimits {
  uint64_t bytes_max = 0;
  int64_t age_ns_max = 0;
};

// A segment that is not written any more.
struct FinishedSegment {
  std::string stem;  // path without ending
  uint64_t bytes = 0;
};

class SegmentWriter {
 public:
  // `folder` is that of the table and exists; segments get numbers from `next_segment` on.
  SegmentWriter(FileSystem& files, const Clock& clock, std::string folder, TableId table,
                SegmentName next, SegmentLimits limits)
      : files_(files),
        clock_(clock),
        folder_(std::move(folder)),
        table_(table),
        next_(next),
        limits_(limits) {}

  // `entry` has everything but offset, bytes and message_crc.
  Status append(const std::string& message, IndexEntry entry);
  Status seal_if_old();
  // Syncs and closes the open segment; fine when there is none.
  Status seal();

  [[nodiscard]] uint64_t open_bytes() const { return data_ ? data_bytes_ + index_bytes_ : 0; }
  // Segments finished since the last call.
  std::vector<FinishedSegment> take_finished() { return std::exchange(finished_, {}); }

 private:
  Status start();
  Status write_beginning();
  Status write(const std::string& message, IndexEntry entry);
  void cut_back();
  void finish();
  [[nodiscard]] std::string data_path() const { return stem_ + std::string(kDataEnding); }
  [[nodiscard]] std::string index_path() const { return stem_ + std::string(kIndexEnding); }

  FileSystem& files_;
  const Clock& clock_;
  std::string folder_;
  TableId table_;
  SegmentName next_;
  SegmentLimits limits_;

  std::string stem_;  // of the open segment
  std::unique_ptr<WritableFile> data_;
  std::unique_ptr<WritableFile> index_;
  uint64_t data_bytes_ = 0;  // of whole messages
  uint64_t index_bytes_ = 0;
  int64_t started_ns_ = 0;
  std::vector<FinishedSegment> finished_;
};

// What a segment holds that was written before, by whoever.
struct RecoveredSegment {
  std::vector<IndexEntry> entries;
  uint64_t bytes = 0;  // of both files
  std::string cut;     // "" or what was cut, for people
};

// Cuts the torn tail of a segment that nobody writes: part of an index entry, entries whose bytes
// never reached the disk, data without an entry. Whole messages are never cut.
Result<RecoveredSegment> recover_segment(FileSystem& files, const std::string& stem);

}  // namespace paramedic::store
