#pragma once
// Lines of a ByteSource in one pass with a fixed buffer. `\n`, `\r\n` and a lone `\r` (progress
// bars draw over themselves) end a piece of text; only `\n` counts as a line, so that numbers are
// those of an editor. One thread.

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/status.h"
#include "diagnose/gate.h"
#include "diagnose/input.h"

namespace paramedic::diagnose {

struct RawLine {
  std::string_view text;  // valid until the next call; at most kLineMax bytes of the line
  uint64_t number = 0;    // from 1
  uint64_t offset = 0;    // of the first byte in the (unpacked) input
};

class LineReader {
 public:
  static constexpr size_t kLineMax = size_t{16} * 1024;
  static constexpr size_t kHistory = size_t{64} * 1024;

  LineReader(ByteSource& source, const Gate& gate);

  // The next line with text; false at the end.
  Result<bool> next(RawLine& line);
  // The next one in which the gate sees something.
  Result<bool> next_candidate(RawLine& line);

  // Up to kHistory bytes of whole lines before the last line given, oldest first, without those
  // that begin before the offset `since`.
  [[nodiscard]] std::string_view history(uint64_t since) const;
  // The number of the last line given (at the end, of the last line there is).
  [[nodiscard]] uint64_t line_number() const { return number_; }
  [[nodiscard]] uint64_t bytes_read() const { return base_ + end_; }

 private:
  Result<bool> refill();
  Result<bool> take(size_t from, RawLine& line);
  void count_to(size_t position);

  ByteSource& source_;
  const Gate& gate_;
  // Not cleared: of a short log no more memory is touched than it has bytes.
  std::unique_ptr<char[]> buffer_;
  size_t position_ = 0;  // the next byte to look at
  size_t start_ = 0;     // of the last line given
  size_t end_ = 0;       // of what is in the buffer
  size_t counted_ = 0;   // line ends before this place are counted in number_
  size_t searched_ = 0;  // up to here next_candidate has looked for literals and line ends
  uint64_t number_ = 1;
  uint64_t base_ = 0;  // offset in the input of the buffer's first byte
  bool at_end_ = false;
};

}  // namespace paramedic::diagnose
