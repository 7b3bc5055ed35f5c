#include "cluster/compare.h"

#include <algorithm>
#include <map>
#include <utility>

namespace paramedic::cluster {
namespace {

// Edits of more calls than this are told as something else.
constexpr int64_t kEditMax = 8;
// How many calls after an edit have to fit again, where there are as many.
constexpr int64_t kFitMax = 16;
// Calls before the divergence that have to be the same for the past to tell what would come next.
constexpr int64_t kContextCalls = 2;
constexpr int64_t kContextCallsMax = 64;
constexpr int64_t kNoFit = 1'000'000;

bool fit(uint32_t a, uint32_t b) {
  return a == b || a == kUnknownSignature || b == kUnknownSignature;
}

int64_t size_of(const std::vector<uint32_t>& calls) { return static_cast<int64_t>(calls.size()); }

// Whether calls[at + i] and others[others_at + i] fit for all i that both have, up to kFitMax;
// `seen` is how many those were.
bool fit_from(const std::vector<uint32_t>& calls, int64_t at, const std::vector<uint32_t>& others,
              int64_t others_at, int64_t& seen) {
  seen = std::min({kFitMax, size_of(calls) - at, size_of(others) - others_at});
  for (int64_t i = 0; i < seen; ++i) {
    if (!fit(calls[static_cast<size_t>(at + i)], others[static_cast<size_t>(others_at + i)])) {
      return false;
    }
  }
  return seen > 0;
}

// The majority's calls from its `number` on. What it has not called yet is taken from the last
// time that it stood at the same place: training repeats itself.
std::vector<uint32_t> expected_from(const RankCalls& majority, int64_t number) {
  const auto& calls = majority.signatures;
  const int64_t at = number - majority.first;
  std::vector<uint32_t> expected(calls.begin() + at, calls.end());
  const int64_t last = size_of(calls) - 1;
  int64_t best = 0;
  int64_t best_common = kContextCalls;
  for (int64_t end = last - 1; end >= 0; --end) {
    int64_t common = 0;
    while (common <= std::min(end, kContextCallsMax) &&
           calls[static_cast<size_t>(end - common)] == calls[static_cast<size_t>(last - common)]) {
      ++common;
    }
    if (common > best_common) {
      best = end + 1;
      best_common = common;
    }
  }
  for (int64_t i = best; best > 0 && i <= last && size_of(expected) < kEditMax + kFitMax; ++i) {
    expected.push_back(calls[static_cast<size_t>(i)]);
  }
  return expected;
}

// How many of the rank's calls an edit explains, less what it costs; negative: it does not fit.
int64_t worth_of(const Edit& edit, const std::vector<uint32_t>& calls,
                 const std::vector<uint32_t>& expected) {
  int64_t seen = 0;
  if (edit.kind == Edit::Kind::kSkipped) {
    return fit_from(calls, 0, expected, edit.count, seen) ? 2 * (seen - edit.count) : -kNoFit;
  }
  if (edit.kind == Edit::Kind::kExtra) {
    return fit_from(calls, edit.count, expected, 0, seen) ? 2 * (seen - edit.count) : -kNoFit;
  }
  const int64_t count_max = std::min(size_of(calls), size_of(expected));
  if (edit.count > count_max ||
      !std::is_permutation(calls.begin(), calls.begin() + edit.count, expected.begin(),
                           expected.begin() + edit.count)) {
    return -kNoFit;
  }
  const bool fits = fit_from(calls, edit.count, expected, edit.count, seen);
  // Half a call more than another edit would cost, so that the plainer one is preferred.
  return fits || seen == 0 ? 2 * (edit.count + seen) - 3 : -kNoFit;
}

Edit edit_of(const RankCalls& rank, const std::vector<uint32_t>& expected, int64_t number) {
  const std::vector<uint32_t> calls(rank.signatures.begin() + (number - rank.first),
                                    rank.signatures.end());
  Edit best{rank.rank, Edit::Kind::kOther, number, 1};
  // One other call, after which all fits; half a call more, so that a plainer edit is preferred.
  int64_t seen = 0;
  int64_t best_worth = fit_from(calls, 1, expected, 1, seen) ? 2 * (seen - 1) - 1 : -kNoFit;
  for (int64_t count = 1; count <= kEditMax; ++count) {
    for (const auto kind : {Edit::Kind::kSkipped, Edit::Kind::kExtra, Edit::Kind::kReordered}) {
      if (kind == Edit::Kind::kReordered && count == 1) continue;
      const Edit edit{rank.rank, kind, number, count};
      const int64_t worth = worth_of(edit, calls, expected);
      if (worth <= best_worth) continue;
      best_worth = worth;
      best = edit;
    }
  }
  return best;
}

// Those who know the call `number`.
std::vector<const RankCalls*> who_know(const std::vector<RankCalls>& ranks, int64_t number) {
  std::vector<const RankCalls*> known;
  for (const RankCalls& rank : ranks) {
    if (rank.first <= number && number < rank.entered()) known.push_back(&rank);
  }
  return known;
}

uint32_t signature_at(const RankCalls& rank, int64_t number) {
  return rank.signatures[static_cast<size_t>(number - rank.first)];
}

// The first number at which a rank does not fit to `reference`, -1 when there is none.
int64_t first_misfit(const RankCalls& rank, const RankCalls& reference) {
  const int64_t begin = std::max(rank.first, reference.first);
  const int64_t end = std::min(rank.entered(), reference.entered());
  for (int64_t number = begin; number < end; ++number) {
    if (!fit(signature_at(rank, number), signature_at(reference, number))) return number;
  }
  return -1;
}

Divergence divergence_at(const std::vector<RankCalls>& ranks, int64_t number) {
  Divergence divergence;
  divergence.number = number;
  const auto known = who_know(ranks, number);
  std::map<uint32_t, Divergence::Camp> camps;
  for (const RankCalls* rank : known) {
    const uint32_t signature = signature_at(*rank, number);
    if (signature == kUnknownSignature) continue;
    camps[signature].signature = signature;
    camps[signature].ranks.push_back(rank->rank);
  }
  for (auto& [signature, camp] : camps) {
    std::sort(camp.ranks.begin(), camp.ranks.end());
    divergence.camps.push_back(std::move(camp));
  }
  std::sort(divergence.camps.begin(), divergence.camps.end(),
            [](const Divergence::Camp& a, const Divergence::Camp& b) {
              if (a.ranks.size() != b.ranks.size()) return a.ranks.size() > b.ranks.size();
              return a.ranks.front() < b.ranks.front();
            });
  divergence.has_majority = divergence.camps.front().ranks.size() * 2 > known.size();
  return divergence;
}

void add_edits(const std::vector<RankCalls>& ranks, Divergence& divergence) {
  const uint32_t common = divergence.camps.front().signature;
  const RankCalls* majority = nullptr;  // the rank of it that tells most of what follows
  const auto known = who_know(ranks, divergence.number);
  for (const RankCalls* rank : known) {
    if (signature_at(*rank, divergence.number) != common) continue;
    if (majority == nullptr || rank->entered() > majority->entered()) majority = rank;
  }
  const auto expected = expected_from(*majority, divergence.number);
  for (const RankCalls* rank : known) {
    if (fit(signature_at(*rank, divergence.number), common)) continue;
    divergence.edits.push_back(edit_of(*rank, expected, divergence.number));
  }
}

}  // namespace

Frontier frontier_of(const std::vector<RankCalls>& ranks) {
  Frontier frontier;
  std::vector<std::pair<int64_t, int32_t>> behind;
  for (const RankCalls& rank : ranks) {
    frontier.furthest = std::max(frontier.furthest, rank.entered());
  }
  for (const RankCalls& rank : ranks) {
    if (rank.entered() < frontier.furthest) {
      behind.emplace_back(rank.entered(), rank.rank);
    } else if (rank.left < frontier.furthest) {
      frontier.inside.push_back(rank.rank);
    }
  }
  std::sort(behind.begin(), behind.end());
  for (const auto& [entered, rank] : behind) frontier.laggards.push_back(rank);
  return frontier;
}

std::optional<Divergence> first_divergence(const std::vector<RankCalls>& ranks) {
  // Where all are the same, all are like any one of them; where they part first, some rank is
  // unlike the one that is compared with, whichever that is. The one that knows most is taken.
  const auto reference =
      std::max_element(ranks.begin(), ranks.end(), [](const RankCalls& a, const RankCalls& b) {
        return a.signatures.size() < b.signatures.size();
      });
  int64_t number = -1;
  for (const RankCalls& rank : ranks) {
    const int64_t misfit = first_misfit(rank, *reference);
    if (misfit >= 0 && (number < 0 || misfit < number)) number = misfit;
  }
  if (number < 0) return std::nullopt;
  Divergence divergence = divergence_at(ranks, number);
  if (divergence.has_majority) add_edits(ranks, divergence);
  return divergence;
}

}  // namespace paramedic::cluster
