#include "supervise/repeat.h"

#include <unistd.h>

#include <algorithm>

namespace paramedic::supervise {

Repeat::Rest Repeat::pass(int log, std::string_view bytes) {
  while (is_on() && !bytes.empty()) {
    const size_t wanted = std::min({bytes.size(), end_ - at_, known_.size()});
    const std::string_view known = read_log(log, at_, wanted);
    const auto [ours, theirs] =
        std::mismatch(known.begin(), known.end(), bytes.begin(), bytes.end());
    const auto same = static_cast<size_t>(ours - known.begin());
    at_ += same;
    bytes.remove_prefix(same);
    if (same < wanted) return {begun_line(log), bytes};
  }
  return {{}, bytes};
}

// A log that cannot be read any more is empty here, so everything is shown.
std::string_view Repeat::read_log(int log, uint64_t at, size_t bytes) {
  const ssize_t got = ::pread(log, known_.data(), bytes, static_cast<off_t>(at));
  return {known_.data(), got > 0 ? static_cast<size_t>(got) : 0};
}

std::string_view Repeat::begun_line(int log) {
  const uint64_t start = std::max(from_, at_ - std::min<uint64_t>(at_, known_.size()));
  std::string_view line = read_log(log, start, at_ - start);
  if (const size_t newline = line.rfind('\n'); newline != std::string_view::npos) {
    line.remove_prefix(newline + 1);
  }
  at_ = end_;
  return line;
}

}  // namespace paramedic::supervise
