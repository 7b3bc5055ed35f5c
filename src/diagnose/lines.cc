#include "diagnose/lines.h"

#include <algorithm>
#include <cstring>

#include "diagnose/gate_simd.h"

namespace paramedic::diagnose {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

bool ends_line(char c) { return c == '\n' || c == '\r'; }

}  // namespace

LineReader::LineReader(ByteSource& source, const Gate& gate)
    : source_(source), gate_(gate), buffer_(std::make_unique_for_overwrite<char[]>(kBufferBytes)) {}

void LineReader::count_to(size_t position) {
  if (position <= counted_) return;
  number_ += count_byte({buffer_.get() + counted_, position - counted_}, '\n');
  counted_ = position;
}

// Reads on behind what is there. Where room gets short, what lies more than kHistory before the
// place reached is dropped: seldom enough that a pipe may give its bytes in drops.
Result<bool> LineReader::refill() {
  if (at_end_) return false;
  if (position_ > kHistory && kBufferBytes - end_ < kBufferBytes / 2) {
    const size_t drop = position_ - kHistory;
    count_to(drop);
    std::memmove(buffer_.get(), buffer_.get() + drop, end_ - drop);
    base_ += drop;
    position_ -= drop;
    end_ -= drop;
    counted_ -= drop;
    searched_ -= std::min(searched_, drop);
    start_ = start_ > drop ? start_ - drop : 0;
  }
  if (end_ == kBufferBytes) return false;
  PARAMEDIC_ASSIGN(const size_t bytes,
                   source_.read(std::span(buffer_.get() + end_, kBufferBytes - end_)));
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
    const char* const begin = buffer_.get();
    stop = static_cast<size_t>(std::find_if(begin + stop, begin + end_, ends_line) - begin);
    if (stop < end_) break;
    const size_t before = position_;
    PARAMEDIC_ASSIGN(const bool more, refill());
    stop -= before - position_;
    if (!more) break;
  }
  start_ = position_;
  count_to(start_);
  line.text = {buffer_.get() + start_, std::min(stop - start_, kLineMax)};
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
    // A literal may have been cut where the bytes ended.
    const size_t looked_at = searched_ - std::min(searched_, Gate::kLiteralMax);
    const size_t hit = gate_.find({buffer_.get(), end_}, std::max(position_, looked_at));
    if (hit != std::string_view::npos) {
      size_t from = hit;
      while (from > position_ && !ends_line(buffer_[from - 1])) --from;
      return take(from, line);
    }
    // The last line may be cut at the buffer's end, in the middle of a literal.
    size_t cut = end_;
    const size_t known = std::max(position_, std::min(searched_, end_));
    while (cut > known && !ends_line(buffer_[cut - 1]) && end_ - cut < kLineMax) --cut;
    // Between the place reached and what was searched before there is no line end.
    if (cut == known) cut = std::max(position_, end_ - std::min(end_, kLineMax));
    searched_ = end_;
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

std::string_view LineReader::history(uint64_t since) const {
  size_t from = start_ > kHistory ? start_ - kHistory : 0;
  if (since >= base_ + from) {
    from = std::min(static_cast<size_t>(since - base_), start_);
  } else if (from > 0 || base_ > 0) {
    while (from < start_ && !ends_line(buffer_[from])) ++from;
  }
  return {buffer_.get() + from, start_ - from};
}

}  // namespace paramedic::diagnose
