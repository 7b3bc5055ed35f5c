#pragma once
// For tests and benchmarks: dumps of a job's flight recorders, made call by call.

#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "cluster/flight_dump.h"

namespace paramedic::cluster {

class TestDumps {
 public:
  // Of `ranks` ranks with the groups of all of them, "0"; `members_told` as NCCL's recorder does.
  explicit TestDumps(int32_t ranks, bool members_told = true);

  void group(const std::string& name, const std::vector<int32_t>& ranks);
  // The next call of the rank in the group; a line of train.py.
  void call(int32_t rank, const std::string& operation, int32_t line, bool completed = true,
            const std::string& group = "0", int64_t size = 64);
  void all_reduce_on_all(int calls);
  // Frames of installed packages inside each call, and as many outside of it.
  void library_frames(int count) { library_frames_ = count; }
  // The first `entries` entries of the rank are overwritten.
  void overwrite(int32_t rank, size_t entries);

  [[nodiscard]] FlightDump& dump(int32_t rank) { return dumps_[static_cast<size_t>(rank)]; }
  [[nodiscard]] const std::vector<FlightDump>& dumps() const { return dumps_; }
  // As the recorder of NCCL writes it, with the stacks that its pickles have.
  [[nodiscard]] std::string json(int32_t rank) const;
  // The same as its pickles are: texts and frames that are equal are shared.
  [[nodiscard]] std::string pickle(int32_t rank) const;

 private:
  [[nodiscard]] Json values(int32_t rank) const;

  std::vector<FlightDump> dumps_;
  int library_frames_ = 0;
  std::map<std::pair<int32_t, std::string>, int64_t> sequences_;
};

}  // namespace paramedic::cluster
