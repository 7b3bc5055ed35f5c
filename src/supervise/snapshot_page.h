#pragma once
// The page on which a process of the job tells which frozen copies of it stand by, and on which it
// is told that one of them is to go on (docs/formats/snapshot.md;
// python/paramedic/recovery/pages.py is the other side). Its bytes are not trusted. One thread.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace paramedic::supervise {

struct Snapshot {
  uint64_t generation = 0;  // from 1
  int64_t step = -1;
  uint64_t stdout_position = 0;  // bytes written by then; kPositionUnknown: to no channel of ours
  uint64_t stderr_position = 0;
  int64_t wall_ns = 0;
  pid_t pid = 0;  // the copy that stands by
};

class SnapshotPage {
 public:
  // Of process `owner` in run `run_id`. kNotFound where it has none.
  static Result<SnapshotPage> open(const std::string& ring_dir, const std::string& run_id,
                                   pid_t owner);
  SnapshotPage(SnapshotPage&& other) noexcept;
  SnapshotPage& operator=(SnapshotPage&&) = delete;
  ~SnapshotPage();

  // The newest whole snapshot.
  [[nodiscard]] std::optional<Snapshot> newest() const;
  // Whether all that was done since `snapshot` can be done once more.
  [[nodiscard]] bool is_repeatable(const Snapshot& snapshot) const;
  // Why there is no snapshot, or why it cannot go on; "" where nothing was said.
  [[nodiscard]] std::string reason() const;
  [[nodiscard]] int32_t rank() const;

  // Tells `snapshot`'s copy to go on.
  void order(const Snapshot& snapshot);
  // Whether it does; nothing before it has answered.
  [[nodiscard]] std::optional<bool> answer(const Snapshot& snapshot) const;

 private:
  explicit SnapshotPage(void* memory) : memory_(memory) {}
  [[nodiscard]] uint64_t word(size_t index) const;

  void* memory_;
};

// Ends the copies of run `run_id` that stand by for processes that are gone and now are children of
// ours, and removes the pages of processes that are gone, and that of the output.
void remove_snapshots(const std::string& ring_dir, const std::string& run_id);

}  // namespace paramedic::supervise
