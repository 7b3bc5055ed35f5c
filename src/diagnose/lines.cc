#include "diagnose/lines.h"

#include <algorithm>
#include <cstring>

namespace paramedic::diagnose {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

bool ends_line(char c) { return c == '\n' || c == '\r'; }

}  // namespace

LineReader::LineReader(ByteSource& source, const Gate& gate)
    : source_(source), gate_(gate), buffer_(kBufferBytes) {}

void LineReader::count_to(size_t position) {
  if (position <= counted_) return;
  const auto begin = buffer_.begin();
  number_ += static_cast<uint64_t>(std::count(begin + static_cast<ptrdiff_t>(counted_),
                                              begin + static_cast<ptrdiff_t>(position), '\n'));
  counted_ = position;
}

// Drops what lies more than kHistory before the place reached, and reads on behind the rest.
Result<bool> LineReader::refill() {
  if (at_end_) return false;
  if (position_ > kHistory) {
    const size_t drop = position_ - kHistory;
    count_to(drop);
    std::memmove(buffer_.data(), buffer_.data() + drop, end_ - drop);
    base_ += drop;
    position_ -= drop;
    end_ -= drop;
    counted_ -= drop;
    start_ = start_ > drop ? start_ - drop : 0;
  }
  if (end_ == buffer_.size()) return false;
  PARAMEDIC_ASSIGN(const size_t bytes,
                   source_.read(std::span(buffer_.data() + end_, buffer_.size() - end_)));
  at_end_ = bytes == 0;
  end_ += bytes;
  return bytes > 0;
}

// The line at `from`, whose end may have to be read first. Of one longer than the buffer the front
// is given and the rest skipped.
Result<bool> LineReader::take(size_t from, RawLine& line) {
  position_ = from;
  start_ = from;
  size_t stop = from;
  for (;;) {
    const auto begin = buffer_.begin();
    const auto found = std::find_if(begin + static_cast<ptrdiff_t>(stop),
                                    begin + static_cast<ptrdiff_t>(end_), ends_line);
    stop = static_cast<size_t>(found - begin);
    if (stop < end_) break;
    const size_t before = position_;
    PARAMEDIC_ASSIGN(const bool more, refill());
    stop -= before - position_;
    if (!more) break;
  }
  start_ = position_;
  count_to(start_);
  line.text = {buffer_.data() + start_, std::min(stop - start_, kLineMax)};
  line.number = number_;
  line.offset = base_ + start_;
  position_ = stop;
  return true;
}

Result<bool> LineReader::next(RawLine& line) {
  for (;;) {
    while (position_ < end_ && ends_line(buffer_[position_])) ++position_;
    if (position_ < end_) return take(position_, line);
    PARAMEDIC_ASSIGN(const bool more, refill());
    if (!more) {
      count_to(position_);
      start_ = position_;
      return false;
    }
  }
}

Result<bool> LineReader::next_candidate(RawLine& line) {
  for (;;) {
    const size_t hit = gate_.find({buffer_.data(), end_}, position_);
    if (hit != std::string_view::npos) {
      size_t from = hit;
      while (from > position_ && !ends_line(buffer_[from - 1])) --from;
      return take(from, line);
    }
    // The last line may be cut at the buffer's end, in the middle of a literal.
    size_t cut = end_;
    while (cut > position_ && !ends_line(buffer_[cut - 1]) && end_ - cut < kLineMax) --cut;
    position_ = cut;
    PARAMEDIC_ASSIGN(const bool more, refill());
    if (!more) {
      position_ = end_;
      count_to(position_);
      start_ = position_;
      return false;
    }
  }
}

std::string_view LineReader::history() const {
  size_t from = start_ > kHistory ? start_ - kHistory : 0;
  if (from > 0 || base_ > 0) {
    while (from < start_ && !ends_line(buffer_[from])) ++from;
  }
  return {buffer_.data() + from, start_ - from};
}

}  // namespace paramedic::diagnose
