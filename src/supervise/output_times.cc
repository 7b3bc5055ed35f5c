#include "supervise/output_times.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/file.h"

namespace paramedic::supervise {

std::string output_times_path(const std::string& log_path) { return log_path + ".times"; }

void OutputTimesWriter::note(uint64_t offset, int64_t time_ns) {
  const bool is_soon = last_ns_ != INT64_MIN && time_ns - last_ns_ < kOutputTimeGapNs;
  if (!file_.valid() || is_soon || entries_ >= kOutputTimesMax) return;
  last_ns_ = time_ns;
  ++entries_;
  const OutputTime entry{offset, time_ns};
  // A torn entry would shift all that follow.
  if (::write(file_.get(), &entry, sizeof entry) != sizeof entry) file_.reset();
}

std::vector<OutputTime> read_output_times(const std::string& log_path) {
  std::vector<OutputTime> times;
  const auto bytes = posix_file_system().read(output_times_path(log_path));
  if (!bytes.ok()) return times;
  times.resize(std::min(bytes->size() / sizeof(OutputTime), kOutputTimesMax));
  if (times.empty()) return times;
  std::memcpy(times.data(), bytes->data(), times.size() * sizeof(OutputTime));
  const auto is_unordered = [](const OutputTime& a, const OutputTime& b) {
    return b.offset <= a.offset;
  };
  const auto bad = std::adjacent_find(times.begin(), times.end(), is_unordered);
  if (bad != times.end()) times.erase(bad + 1, times.end());
  return times;
}

int64_t time_at(const std::vector<OutputTime>& times, uint64_t offset) {
  const auto after = std::upper_bound(
      times.begin(), times.end(), offset,
      [](uint64_t value, const OutputTime& entry) { return value < entry.offset; });
  return after == times.begin() ? 0 : (after - 1)->time_ns;
}

}  // namespace paramedic::supervise
