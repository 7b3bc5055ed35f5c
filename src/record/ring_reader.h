#pragma once
// The side of the ring that reads, outside the training process. It works while the writer lives,
// after its death, and when it starts late. No byte of the file is trusted: every record is copied
// out, checked, and only then passed on. One RingReader drains a ring at a time (flock); one thread
// at a time uses it.

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "record/format.h"

namespace paramedic::record {

// What a definition of the directory says; its index in `RingReader::definitions` is its id.
struct Definition {
  Kind kind = Kind::kOther;
  stats::DType dtype = stats::DType::kFloat32;
  std::vector<int64_t> sizes;
  std::string name;
};

// One checked record. Of the payload members only those of its type are filled; they point into
// the reader's buffer and are valid during the callback. Every id names a definition.
struct Record {
  RecordType type = RecordType::kPadding;
  Mode mode = Mode::kTrain;
  uint64_t sequence = 0;
  int64_t time_ns = 0;  // wall clock
  int64_t step = -1;

  std::span<const StatsItem> stats;     // kStats
  std::span<const ScalarItem> scalars;  // kScalars
  std::string_view event_kind;          // kEvent
  std::string_view event_json;          // kEvent
  uint32_t id = 0;                      // kHistogram, kTensor
  std::span<const HistogramBin> bins;   // kHistogram
  uint64_t total_bytes = 0;             // kTensor
  uint64_t offset_bytes = 0;            // kTensor
  Bytes piece;                          // kTensor
  CollectiveItem collective = {};       // kCollectiveEntered
  std::span<const int64_t> sizes;       // kCollectiveEntered
  CollectiveLeftItem left = {};         // kCollectiveLeft
};

// What the header says at this moment.
struct RingState {
  uint64_t ring_id = 0;
  int32_t pid = 0;
  int32_t rank = 0;
  int32_t world_size = 1;
  bool closed = false;  // the writer ended in good order
  int64_t last_step = -1;
  int64_t last_step_time_ns = 0;
  uint64_t next_sequence = 0;
  uint64_t dropped_records = 0;
  uint32_t overhead_ppm = 0;
  double fill = 0;  // 0..1: share of the ring that is not acknowledged
};

class RingReader {
 public:
  // kNotFound; kExhausted: another reader drains it; kUnsupported: of a newer version;
  // kCorruption: not a ring, or damaged in the header; kIoError.
  static Result<std::unique_ptr<RingReader>> open(const std::string& path);
  // The same from an open file (memfd in the fuzzer), which the reader then owns and closes.
  static Result<std::unique_ptr<RingReader>> adopt(int fd, const std::string& name);

  RingReader(const RingReader&) = delete;
  RingReader& operator=(const RingReader&) = delete;
  ~RingReader();

  // Passes on every record that was committed by now and not yet read; returns how many. The
  // writer gets no room back before `acknowledge`. kCorruption names file and position: what came
  // before the damage was passed on, the rest up to the newest record is skipped
  // (`skipped_bytes`), and the next call goes on behind it.
  Result<uint64_t> read(const std::function<void(const Record&)>& on_record);

  // What was read is safely stored: gives its room back to the writer.
  void acknowledge();

  // Grows during `read`; references to earlier definitions stay valid only until then.
  [[nodiscard]] const std::vector<Definition>& definitions() const { return definitions_; }
  [[nodiscard]] RingState state() const;
  [[nodiscard]] uint64_t skipped_bytes() const { return skipped_bytes_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  RingReader(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  Status map_and_check_header();
  Status check_limits(uint64_t* head);
  Status read_directory();
  Status read_bytes(uint64_t offset, uint64_t bytes);
  // Parses records at the start of the buffer; see the .cc file.
  Result<uint64_t> parse_chunk(uint64_t chunk_bytes, bool reaches_end,
                               const std::function<void(const Record&)>& on_record,
                               uint64_t* records);
  [[nodiscard]] Status damaged(const std::string& what, uint64_t position) const;

  int fd_;
  std::string path_;
  RingHeader* header_ = nullptr;
  // Copies from the time of opening: the file may not change them any more.
  RingState fixed_;
  uint32_t directory_bytes_ = 0;
  uint32_t ring_bytes_ = 0;
  uint64_t position_ = 0;            // of the next record to read
  uint64_t directory_position_ = 0;  // of the next definition to read
  uint64_t next_sequence_ = 0;       // sequences below it were read
  bool directory_damaged_ = false;
  uint64_t skipped_bytes_ = 0;
  std::vector<Definition> definitions_;
  std::vector<uint64_t> buffer_;  // of 8-byte words, so that items in it are aligned
};

}  // namespace paramedic::record
