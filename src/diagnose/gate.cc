#include "diagnose/gate.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/status.h"
#include "diagnose/gate_simd.h"

namespace paramedic::diagnose {
namespace {

constexpr size_t kBuckets = 8;
constexpr int kRounds = 4;

// In the order of the bytes.
uint32_t key_of(const char* text) {
  uint32_t bytes = 0;
  std::memcpy(&bytes, text, Gate::kPrefixBytes);
  return __builtin_bswap32(bytes);
}

// The literals that share one bit of the tables.
class Bucket {
 public:
  void add(const std::string& literal) { change(literal, 1); }
  void remove(const std::string& literal) { change(literal, -1); }
  // How many more of all texts of four bytes pass with `literal`, in parts of 2^32.
  [[nodiscard]] int64_t opened_by(const std::string& literal) const {
    int64_t before = 1;
    int64_t after = 1;
    for (size_t i = 0; i < count_.size(); ++i) {
      before *= used_[i];
      after *= used_[i] + (count_[i][half_of(literal, i)] == 0 ? 1 : 0);
    }
    return after - before;
  }

 private:
  // Even ones are the low halves of the bytes, odd ones the high halves.
  static size_t half_of(const std::string& literal, size_t i) {
    const auto byte = static_cast<uint8_t>(literal[i / 2]);
    return i % 2 == 0 ? byte & 15U : byte >> 4U;
  }
  void change(const std::string& literal, int by) {
    for (size_t i = 0; i < count_.size(); ++i) {
      int& count = count_[i][half_of(literal, i)];
      used_[i] -= count > 0 ? 1 : 0;
      count += by;
      used_[i] += count > 0 ? 1 : 0;
    }
  }

  static constexpr size_t kHalves = 2 * Gate::kPrefixBytes;
  std::array<std::array<int, 16>, kHalves> count_{};
  std::array<int64_t, kHalves> used_{};
};

// Which bucket each literal goes to, so that little else passes: at first neighbours in order share
// one, then each moves to where it opens the least.
std::vector<size_t> buckets_of(const std::vector<std::string>& literals) {
  std::array<Bucket, kBuckets> buckets;
  std::vector<size_t> of(literals.size());
  for (size_t i = 0; i < literals.size(); ++i) {
    of[i] = i * kBuckets / literals.size();
    buckets[of[i]].add(literals[i]);
  }
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < literals.size(); ++i) {
      buckets[of[i]].remove(literals[i]);
      int64_t least = buckets[of[i]].opened_by(literals[i]);
      for (size_t b = 0; b < kBuckets; ++b) {
        const int64_t opened = buckets[b].opened_by(literals[i]);
        if (opened < least) of[i] = b;
        least = std::min(least, opened);
      }
      buckets[of[i]].add(literals[i]);
    }
  }
  return of;
}

}  // namespace

void Gate::fill_tables() {
  const std::vector<size_t> buckets = buckets_of(literals_);
  for (size_t i = 0; i < literals_.size(); ++i) {
    const auto bit = static_cast<uint8_t>(1U << buckets[i]);
    for (size_t k = 0; k < kPrefixBytes; ++k) {
      const auto byte = static_cast<uint8_t>(literals_[i][k]);
      tables_.low[k][byte & 15U] |= bit;
      tables_.high[k][byte >> 4U] |= bit;
    }
  }
}

Gate::Gate(std::vector<std::string> literals) : literals_(std::move(literals)) {
  std::sort(literals_.begin(), literals_.end());
  literals_.erase(std::unique(literals_.begin(), literals_.end()), literals_.end());
  for (const std::string& literal : literals_) {
    PARAMEDIC_CHECK(literal.size() >= kPrefixBytes && literal.size() <= kLiteralMax);
    set_prefix_bit(prefixes_.data(), literal.data());
    keys_.push_back(key_of(literal.data()));
  }
  if (!literals_.empty()) fill_tables();
}

bool Gate::literal_at(std::string_view text, size_t at) const {
  const std::string_view here = text.substr(at);
  const uint32_t key = key_of(here.data());
  const auto first = std::lower_bound(keys_.begin(), keys_.end(), key) - keys_.begin();
  for (auto i = static_cast<size_t>(first); i < keys_.size() && keys_[i] == key; ++i) {
    if (here.starts_with(literals_[i])) return true;
  }
  return false;
}

size_t Gate::find_slowly(std::string_view text, size_t from) const {
  for (size_t at = from; at + kPrefixBytes <= text.size(); ++at) {
    if (prefix_bit(prefixes_.data(), text.data() + at) != 0 && literal_at(text, at)) return at;
  }
  return std::string_view::npos;
}

size_t Gate::find(std::string_view text, size_t from) const {
  const GateTables tables = {tables_.low.data()->data(), tables_.high.data()->data(),
                             prefixes_.data()};
  while (from < text.size()) {
    // A block of places at a time; the last few bytes, too short for a vector, one by one.
    const GateHit hit = gate_block(tables, text.data(), text.size(), from);
    if (hit.bytes == 0) return find_slowly(text, hit.at);
    for (uint64_t places = hit.places; places != 0; places &= places - 1) {
      const size_t at = hit.at + static_cast<size_t>(__builtin_ctzll(places));
      if (literal_at(text, at)) return at;
    }
    from = hit.at + hit.bytes;
  }
  return std::string_view::npos;
}

}  // namespace paramedic::diagnose
