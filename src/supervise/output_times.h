#pragma once
// When which part of a log was printed: `logs/rank-0.out.times` beside `logs/rank-0.out`
// (docs/formats/run-folder.md). The copier writes it, anyone reads it.

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "supervise/fd.h"

namespace paramedic::supervise {

// Bytes of the log from `offset` on were read at `time_ns` or later, up to the next entry.
struct OutputTime {
  uint64_t offset = 0;
  int64_t time_ns = 0;  // wall clock
};
static_assert(sizeof(OutputTime) == 16);

constexpr int64_t kOutputTimeGapNs = 20'000'000;  // between two entries, at the least
constexpr size_t kOutputTimesMax = 64'000'000 / sizeof(OutputTime);  // of one log

std::string output_times_path(const std::string& log_path);

// One thread. Fails silently: the log itself is what matters.
class OutputTimesWriter {
 public:
  OutputTimesWriter() = default;
  explicit OutputTimesWriter(Fd file) : file_(std::move(file)) {}

  // Bytes that begin at `offset` of the log were read at `time_ns`.
  void note(uint64_t offset, int64_t time_ns);

 private:
  Fd file_;
  int64_t last_ns_ = INT64_MIN;
  size_t entries_ = 0;
};

// Empty when there is no such file; of a damaged one what comes before the damage.
std::vector<OutputTime> read_output_times(const std::string& log_path);

// The time of the byte at `offset`; 0 when no entry tells.
int64_t time_at(const std::vector<OutputTime>& times, uint64_t offset);

}  // namespace paramedic::supervise
