#pragma once
// The first and cheapest look at log text: where does one of a set of literals stand? All the rest
// of the library sees only the lines around such places, so that progress text costs little more
// than reading it. Immutable, safe in any number of threads.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace paramedic::diagnose {

class Gate {
 public:
  // Each literal has from kPrefixBytes to kLiteralMax bytes; case matters.
  explicit Gate(std::vector<std::string> literals);

  // Position of the first literal at or after `from`, or npos.
  [[nodiscard]] size_t find(std::string_view text, size_t from) const;

  static constexpr size_t kPrefixBytes = 4;
  static constexpr size_t kLiteralMax = 64;

 private:
  // Of the four bytes at each place, the low and the high half of each are looked up: a bucket's
  // bit survives where all eight halves occur in one of its literals. One shuffle does it for a
  // whole vector of places.
  struct Tables {
    alignas(16) std::array<std::array<uint8_t, 16>, kPrefixBytes> low{};
    alignas(16) std::array<std::array<uint8_t, 16>, kPrefixBytes> high{};
  };

  void fill_tables();
  [[nodiscard]] bool literal_at(std::string_view text, size_t at) const;
  [[nodiscard]] size_t find_slowly(std::string_view text, size_t from) const;

  Tables tables_;
  // One bit for each hash of four bytes that some literal begins with: what passes the tables by
  // chance ends here.
  std::array<uint64_t, 1024> prefixes_{};
  std::vector<std::string> literals_;  // sorted
  std::vector<uint32_t> keys_;         // the first four bytes of each, in the same order
};

}  // namespace paramedic::diagnose
