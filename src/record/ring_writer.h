#pragma once
// The side of the ring that writes, inside the training process. Never blocks, never allocates
// after `create`, and makes no system call but clock_gettime. Any thread may write: a TryLock
// serialises them, and a record that finds it taken for too long, or the ring full, is dropped and
// counted. In a forked child every call does nothing.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/file.h"
#include "base/status.h"
#include "record/format.h"
#include "record/try_lock.h"

namespace paramedic::record {

struct RingOptions {
  std::string directory;  // of the ring file; /dev/shm or the run folder
  std::string run_id;     // letters, digits, '.', '_', '-'; at most kRunIdBytesMax
  uint32_t ring_bytes = kRingBytesDefault;  // rounded up to a power of two within the limits
  uint32_t directory_bytes = kDirectoryBytesDefault;
  int32_t rank = 0;
  int32_t world_size = 1;
  // Fixed in tests; in use random, this process and the real clock.
  std::optional<uint64_t> ring_id;
  std::optional<int32_t> pid;
  const Clock* clock = nullptr;
};

constexpr uint32_t kRunIdBytesMax = 128;

// One tensor or scalar to be named; `sizes` has at most kMaxDims entries.
struct DefinitionSpec {
  Kind kind = Kind::kOther;
  stats::DType dtype = stats::DType::kFloat32;
  std::span<const int64_t> sizes;
  std::string_view name;  // cut to kNameBytesMax at a character of UTF-8
};

struct RecordSpec {
  RecordType type = RecordType::kStats;
  Mode mode = Mode::kTrain;
  int64_t step = -1;
  uint32_t count = 0;
};

class RingWriter {
 public:
  // Makes DIRECTORY/paramedic-RUN_ID-PID-RING_ID.ring, mode 0600, with all its pages: a full
  // /dev/shm is a kIoError here and never a SIGBUS later. The name appears when the file is whole.
  static Result<std::unique_ptr<RingWriter>> create(const RingOptions& options);

  RingWriter(const RingWriter&) = delete;
  RingWriter& operator=(const RingWriter&) = delete;
  // Unmaps; the file stays and is not marked as closed.
  ~RingWriter();

  // Adds a definition and returns its id; none when the directory is full or the lock was taken.
  std::optional<uint32_t> define(const DefinitionSpec& spec);

  // Appends one record of the concatenated `parts`. False: dropped and counted.
  bool append(const RecordSpec& spec, std::span<const Bytes> parts);

  // A record that the caller had to give up before it came here.
  void count_drop();

  // The step ended, `overhead_ppm` is the measured cost so far: for those who watch the header.
  void step_done(int64_t step, uint32_t overhead_ppm);

  // The process ends in good order. Later records are dropped.
  void close();

  // False in a forked child.
  [[nodiscard]] bool owned_by_this_process() const;
  // Of one record with its header: at most a quarter of the ring, so that padding and record
  // always fit into an empty one.
  [[nodiscard]] uint32_t record_bytes_max() const;
  // How much room there is now; the reader may only make it larger.
  [[nodiscard]] uint64_t free_bytes() const;
  // Definitions that the directory can hold at most: the bound for tables indexed by id.
  [[nodiscard]] uint32_t definitions_max() const;
  [[nodiscard]] uint64_t dropped_records() const;
  [[nodiscard]] uint32_t overhead_ppm() const;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  RingWriter() = default;
  Status map(int fd);
  void write_header(const RingOptions& options, uint64_t ring_id, int32_t pid);
  [[nodiscard]] std::byte* ring_start() const;
  void write_padding(uint64_t rest);

  std::string path_;
  const Clock* clock_ = nullptr;
  uint32_t directory_bytes_ = 0;
  uint32_t ring_bytes_ = 0;
  std::byte* map_ = nullptr;
  RingHeader* header_ = nullptr;
  // A page that the kernel empties in every child (MADV_WIPEONFORK), whichever call made it.
  uint64_t* alive_ = nullptr;
  int32_t owner_pid_ = 0;  // used instead where the kernel cannot (before 4.14)

  TryLock lock_;
  // The writer's own copies: what others write into the shared header cannot mislead it.
  uint64_t head_ = 0;
  uint32_t directory_used_ = 0;
  uint32_t definitions_ = 0;
  bool closed_ = false;
};

}  // namespace paramedic::record
