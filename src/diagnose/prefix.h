#pragma once
// What launchers, collectors and loggers put before a line: who wrote it, and when. Prefixes that
// nobody lists are learned from the first traceback that carries one. One thread, one instance per
// input.

#include <bitset>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <string_view>

namespace paramedic::diagnose {

enum class Level : uint8_t { kNone, kInfo, kWarning, kError };

struct Prefixed {
  std::string_view text;    // what follows the prefixes
  std::string_view writer;  // the part that tells writers apart; "" when there is none
  int rank = -1;
  // Seconds since 1970 UTC, or since midnight where no date stands; NaN without a time.
  double time_s = std::numeric_limits<double>::quiet_NaN();
  Level level = Level::kNone;
};

class PrefixSplitter {
 public:
  // `line` is clean (text.h). The views of the answer point into it.
  Prefixed split(std::string_view line);

 private:
  static constexpr size_t kLearnedMax = 1024;

  static constexpr size_t kPrefixMax = 96;

  bool strip_learned(Prefixed& line) const;
  void learn(std::string_view line);

  std::set<std::string, std::less<>> learned_;
  std::bitset<kPrefixMax + 1> lengths_;  // that learned prefixes have
  bool numbered_ = false;                // `srun -l`: "3: text"
};

}  // namespace paramedic::diagnose
