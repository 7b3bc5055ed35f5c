#include "diagnose/gate.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/status.h"
#include "diagnose/gate_simd.h"

namespace paramedic::diagnose {
namespace {

uint32_t prefix_hash(const char* text) {
  uint32_t bytes = 0;
  std::memcpy(&bytes, text, Gate::kPrefixBytes);
  return (bytes * 0x9e3779b1U) >> 16U;
}

}  // namespace

Gate::Gate(std::vector<std::string> literals) : literals_(std::move(literals)) {
  // Neighbours in order share prefixes, so that a bucket's halves stay selective.
  std::sort(literals_.begin(), literals_.end());
  literals_.erase(std::unique(literals_.begin(), literals_.end()), literals_.end());
  for (size_t i = 0; i < literals_.size(); ++i) {
    const std::string& literal = literals_[i];
    PARAMEDIC_CHECK(literal.size() >= kPrefixBytes);
    const auto bit = static_cast<uint8_t>(1U << (i * kBuckets / literals_.size()));
    for (size_t k = 0; k < kPrefixBytes; ++k) {
      const auto byte = static_cast<uint8_t>(literal[k]);
      tables_.low[k][byte & 15U] |= bit;
      tables_.high[k][byte >> 4U] |= bit;
    }
    const uint32_t hash = prefix_hash(literal.data());
    prefixes_[hash / 64] |= uint64_t{1} << (hash % 64);
  }
}

bool Gate::literal_at(std::string_view text, size_t at) const {
  const uint32_t hash = prefix_hash(text.data() + at);
  if ((prefixes_[hash / 64] >> (hash % 64) & 1U) == 0) return false;
  const std::string_view here = text.substr(at);
  const std::string_view prefix = here.substr(0, kPrefixBytes);
  for (auto literal = std::lower_bound(literals_.begin(), literals_.end(), prefix);
       literal != literals_.end() && literal->starts_with(prefix); ++literal) {
    if (here.starts_with(*literal)) return true;
  }
  return false;
}

size_t Gate::find_slowly(std::string_view text, size_t from) const {
  for (size_t at = from; at + kPrefixBytes <= text.size(); ++at) {
    if (literal_at(text, at)) return at;
  }
  return std::string_view::npos;
}

size_t Gate::find(std::string_view text, size_t from) const {
  const GateTables tables = {tables_.low.data()->data(), tables_.high.data()->data()};
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
