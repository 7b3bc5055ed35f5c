#pragma once
// A regular expression over tensor names: POSIX extended syntax, found anywhere in the name, in
// time linear in the name. libc's matcher rather than std::regex, whose backtracking could hold up
// a training process for ever and which throws. Movable; matching is thread-safe.

#include <regex.h>

#include <memory>
#include <string>

#include "base/status.h"

namespace paramedic::probe {

class NamePattern {
 public:
  static constexpr size_t kBytesMax = 256;
  // libc writes x+ as xx*: each one inside another doubles what it builds.
  static constexpr int kPlusesMax = 8;

  // Matches every name.
  NamePattern() = default;
  // What could take more than linear time or much memory is refused: counts in braces and
  // references back to a group.
  static Result<NamePattern> compile(const std::string& text);

  [[nodiscard]] bool matches(const std::string& name) const;

 private:
  struct Free {
    void operator()(regex_t* regex) const;
  };
  std::unique_ptr<regex_t, Free> regex_;
};

}  // namespace paramedic::probe
