#include "cluster/shared_samples.h"

#include <algorithm>
#include <bit>
#include <map>

namespace paramedic::cluster {
namespace {

constexpr int kPairsMin = 4;  // fewer samples of equal content, or other content, say nothing
constexpr size_t kPairwiseMax = 64;  // ranks of which each pair is compared

struct Agreement {
  int equal = 0;
  int different = 0;
};

Agreement agreement(const PassRead& one, const PassRead& other) {
  Agreement agreement;
  for (const auto& [id, content] : one.pairs) {
    const auto same = other.pairs.find(id);
    if (same == other.pairs.end()) continue;
    ++(same->second == content ? agreement.equal : agreement.different);
  }
  return agreement;
}

const PassRead* read_of(const Pass* pass, int32_t rank) {
  if (pass == nullptr) return nullptr;
  const auto mine = pass->ranks.find(rank);
  return mine != pass->ranks.end() && mine->second.read ? &*mine->second.read : nullptr;
}

// Whether a sample looks other each time the same rank reads it.
SameData augmented(const Pass& pass, const Pass* before, int32_t rank) {
  const PassRead* now = read_of(&pass, rank);
  const PassRead* then = read_of(before, rank);
  if (now == nullptr || then == nullptr) return SameData::kUnknown;
  const Agreement own = agreement(*now, *then);
  if (own.equal + own.different < kPairsMin) return SameData::kUnknown;
  return own.different > own.equal ? SameData::kYes : SameData::kNo;
}

// Data sets that look alike may still differ: by what a rank puts into them as they are read.
SameData same_data(const Pass& pass, const Pass* before, int32_t one, int32_t other) {
  const PassRead* first = read_of(&pass, one);
  const PassRead* second = read_of(&pass, other);
  if (first == nullptr || second == nullptr) return SameData::kUnknown;
  const Agreement both = agreement(*first, *second);
  if (both.different <= both.equal || both.different < kPairsMin) return SameData::kYes;
  switch (augmented(pass, before, one)) {
    case SameData::kYes:
      return SameData::kYes;
    case SameData::kNo:
      return SameData::kNo;
    case SameData::kUnknown:
      return SameData::kUnknown;
  }
  return SameData::kUnknown;
}

const std::optional<SampleSet>& set_of(const PassRead& read, bool by_root) {
  return by_root ? read.root_ids : read.ids;
}

// The largest group of ranks whose data sets have the same print, of those that have sets.
std::vector<int32_t> alike(const Pass& pass, const Peers& peers, bool by_root) {
  std::map<std::string, std::vector<int32_t>> by_print;
  for (const int32_t rank : peers.ranks) {
    const auto mine = pass.ranks.find(rank);
    if (mine == pass.ranks.end() || !mine->second.read) continue;
    const PassBegun& begun = mine->second.begun;
    if (!set_of(*mine->second.read, by_root)) continue;
    if (by_root && !begun.root) continue;
    const std::string& print = by_root ? begun.root->print : begun.dataset.print;
    if (!print.empty()) by_print[print].push_back(rank);
  }
  std::vector<int32_t> largest;
  for (auto& [print, ranks] : by_print) {
    if (ranks.size() > largest.size()) largest = std::move(ranks);
  }
  return largest;
}

int64_t common(const SampleSet& one, const SampleSet& other) {
  int64_t count = 0;
  for (size_t i = 0; i < one.bits.size(); ++i) {
    count += std::popcount(static_cast<uint8_t>(one.bits[i] & other.bits[i]));
  }
  return count;
}

// What the sets of `coverage.ranks` have together; false where they are no sets of one data set.
bool put_together(const Pass& pass, Coverage& coverage) {
  const auto set = [&](int32_t rank) -> const SampleSet& {
    return *set_of(*pass.ranks.at(rank).read, coverage.by_root);
  };
  const SampleSet& first = set(coverage.ranks.front());
  coverage.size = first.size;
  coverage.modulus = first.modulus;
  std::vector<uint8_t> seen(first.bits.size(), 0);
  for (const int32_t rank : coverage.ranks) {
    const SampleSet& mine = set(rank);
    if (mine.size != first.size || mine.modulus != first.modulus) return false;
    coverage.read += mine.read;
    coverage.own_twice += mine.read - mine.distinct;
    for (size_t i = 0; i < seen.size(); ++i) {
      coverage.shared += std::popcount(static_cast<uint8_t>(seen[i] & mine.bits[i]));
      seen[i] |= mine.bits[i];
    }
  }
  for (const uint8_t byte : seen) coverage.distinct += std::popcount(byte);
  const size_t count = coverage.ranks.size();
  if (count > kPairwiseMax) return true;
  coverage.pairwise.assign(count, std::vector<int64_t>(count, 0));
  for (size_t i = 0; i < count; ++i) {
    for (size_t j = i + 1; j < count; ++j) {
      const int64_t both = common(set(coverage.ranks[i]), set(coverage.ranks[j]));
      coverage.pairwise[i][j] = coverage.pairwise[j][i] = both;
    }
  }
  return true;
}

}  // namespace

bool all_have_read(const Pass& pass, const std::vector<int32_t>& ranks, bool over) {
  return std::all_of(ranks.begin(), ranks.end(), [&](int32_t rank) {
    const PassRead* read = read_of(&pass, rank);
    return read != nullptr && (read->over || !over);
  });
}

std::optional<Coverage> coverage_of(const Pass& pass, const Pass* before, const Peers& peers) {
  Coverage coverage;
  coverage.ranks = alike(pass, peers, false);
  if (coverage.ranks.size() < peers.ranks.size()) {
    std::vector<int32_t> under = alike(pass, peers, true);
    if (under.size() > coverage.ranks.size()) {
      coverage.ranks = std::move(under);
      coverage.by_root = true;
    }
  }
  if (coverage.ranks.size() < 2) return std::nullopt;
  for (size_t i = 1; i < coverage.ranks.size(); ++i) {
    const SameData same = same_data(pass, before, coverage.ranks.front(), coverage.ranks[i]);
    if (same != SameData::kYes) return std::nullopt;
  }
  if (!put_together(pass, coverage)) return std::nullopt;
  return coverage;
}

std::optional<int32_t> wrong_sampler_rank(const Pass& pass, const Peers& peers) {
  std::optional<int32_t> wrong;
  for (size_t place = 0; place < peers.ranks.size(); ++place) {
    const auto mine = pass.ranks.find(peers.ranks[place]);
    if (mine == pass.ranks.end() || !mine->second.begun.sampler.rank) return std::nullopt;
    if (*mine->second.begun.sampler.rank == static_cast<int64_t>(place)) continue;
    wrong = wrong ? -1 : peers.ranks[place];
  }
  return wrong;
}

std::optional<rules::Where> where_shared_out(const Pass& pass, int32_t rank, bool by_dataset) {
  const auto mine = pass.ranks.find(rank);
  if (mine == pass.ranks.end()) return std::nullopt;
  const PassBegun& begun = mine->second.begun;
  if (by_dataset && begun.dataset.where.line > 0) return begun.dataset.where;
  if (begun.sampler.where.line > 0) return begun.sampler.where;
  if (begun.where.line > 0) return begun.where;
  return std::nullopt;
}

}  // namespace paramedic::cluster
