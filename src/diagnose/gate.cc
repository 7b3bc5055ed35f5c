#include "diagnose/gate.h"

#include <algorithm>

#include "base/status.h"
#include "diagnose/gate_simd.h"

namespace paramedic::diagnose {

Gate::Gate(std::vector<std::string> literals) {
  // Neighbours in order share prefixes, so that a bucket's halves stay selective.
  std::sort(literals.begin(), literals.end());
  literals.erase(std::unique(literals.begin(), literals.end()), literals.end());
  for (size_t i = 0; i < literals.size(); ++i) {
    const std::string& literal = literals[i];
    PARAMEDIC_CHECK(literal.size() >= kPrefixBytes);
    const size_t bucket = i * buckets_.size() / literals.size();
    const auto bit = static_cast<uint8_t>(1U << bucket);
    for (size_t k = 0; k < kPrefixBytes; ++k) {
      const auto byte = static_cast<uint8_t>(literal[k]);
      tables_.low[k][byte & 15U] |= bit;
      tables_.high[k][byte >> 4U] |= bit;
    }
    buckets_[bucket].push_back(literal);
  }
}

bool Gate::literal_at(std::string_view text, size_t at, uint8_t buckets) const {
  const std::string_view here = text.substr(at);
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    if ((buckets >> bucket & 1U) == 0) continue;
    for (const std::string& literal : buckets_[bucket]) {
      if (here.starts_with(literal)) return true;
    }
  }
  return false;
}

size_t Gate::find_slowly(std::string_view text, size_t from, size_t end) const {
  for (size_t at = from; at < end && at + kPrefixBytes <= text.size(); ++at) {
    uint8_t buckets = 0xff;
    for (size_t k = 0; k < kPrefixBytes && buckets != 0; ++k) {
      const auto byte = static_cast<uint8_t>(text[at + k]);
      buckets =
          static_cast<uint8_t>(buckets & tables_.low[k][byte & 15U] & tables_.high[k][byte >> 4U]);
    }
    if (buckets != 0 && literal_at(text, at, buckets)) return at;
  }
  return std::string_view::npos;
}

size_t Gate::find(std::string_view text, size_t from) const {
  const GateTables tables = {tables_.low.data()->data(), tables_.high.data()->data()};
  while (from < text.size()) {
    // A block of places at a time; the last few bytes, too short for a vector, one by one.
    const GateHit hit = gate_block(tables, text.data(), text.size(), from);
    if (hit.bytes == 0) return find_slowly(text, hit.at, text.size());
    for (uint64_t places = hit.places; places != 0; places &= places - 1) {
      const size_t at = hit.at + static_cast<size_t>(__builtin_ctzll(places));
      const size_t found = find_slowly(text, at, at + 1);
      if (found != std::string_view::npos) return found;
    }
    from = hit.at + hit.bytes;
  }
  return std::string_view::npos;
}

}  // namespace paramedic::diagnose
