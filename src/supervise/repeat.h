#pragma once
// Output that the user has seen already and that comes once more, since an earlier state of the job
// goes on. It is held against the log and dropped while it is the same; the first line that is
// another one is shown, and all after it. Allocates nothing. One thread.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace paramedic::supervise {

class Repeat {
 public:
  struct Rest {
    std::string_view begun;  // what was dropped of the line that turned out to be another one
    std::string_view bytes;  // what is left of the new bytes
  };

  Repeat() = default;
  // Bytes `from` to `end` of the log.
  Repeat(uint64_t from, uint64_t end) : from_(from), at_(from), end_(end) {}

  [[nodiscard]] bool is_on() const { return at_ < end_; }
  // Where in the log the output stands, while `is_on`.
  [[nodiscard]] uint64_t position() const { return at_; }
  // The part of new output that is to be shown. `begun` lies in this object until the next call.
  Rest pass(int log, std::string_view bytes);

 private:
  std::string_view read_log(int log, uint64_t at, size_t bytes);
  std::string_view begun_line(int log);

  uint64_t from_ = 0;
  uint64_t at_ = 0;
  uint64_t end_ = 0;
  std::array<char, 64 * 1024> known_{};
};

}  // namespace paramedic::supervise
