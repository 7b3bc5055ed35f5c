// The comparison of ranks at scale, on one core: 10,000 ranks with 2,000 calls each, of which one
// has skipped a call near the end:
//   bench_cluster [RANKS [CALLS]]
// The verdicts are checked before anything is timed.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <vector>

#include "base/status.h"
#include "cluster/compare.h"

namespace {

using namespace paramedic;
using namespace paramedic::cluster;

// A step of sixteen calls of different sizes, again and again.
constexpr uint32_t kCallsOfAStep = 16;
constexpr int kRounds = 5;

std::vector<RankCalls> make_ranks(int32_t ranks, int64_t calls, int32_t guilty) {
  std::vector<RankCalls> all(static_cast<size_t>(ranks));
  for (int32_t rank = 0; rank < ranks; ++rank) {
    RankCalls& one = all[static_cast<size_t>(rank)];
    one.rank = rank;
    for (int64_t call = 0; call < calls; ++call) {
      if (rank == guilty && call == calls - 40) continue;
      one.signatures.push_back(1 + static_cast<uint32_t>(call) % kCallsOfAStep);
    }
    one.left = one.entered() - 1;
  }
  return all;
}

template <typename Function>
double best_seconds(const Function& function) {
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    function();
    best = std::min(
        best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const int32_t ranks = argc > 1 ? std::atoi(argv[1]) : 10'000;
  const int64_t calls = argc > 2 ? std::atoi(argv[2]) : 2'000;
  PARAMEDIC_CHECK(ranks >= 3 && calls >= 100);
  const int32_t guilty = ranks / 3;
  const auto all = make_ranks(ranks, calls, guilty);

  const Frontier frontier = frontier_of(all);
  PARAMEDIC_CHECK(frontier.laggards == std::vector<int32_t>{guilty});
  const auto divergence = first_divergence(all);
  PARAMEDIC_CHECK(divergence && divergence->has_majority && divergence->edits.size() == 1);
  PARAMEDIC_CHECK(divergence->edits[0].rank == guilty &&
                  divergence->edits[0].kind == Edit::Kind::kSkipped);

  size_t kept = 0;
  const double frontier_s = best_seconds([&] { kept += frontier_of(all).laggards.size(); });
  const double full_s = best_seconds([&] { kept += first_divergence(all)->edits.size(); });
  PARAMEDIC_CHECK(kept == 2 * kRounds);
  fmt::print(
      "{} ranks x {} calls: frontier {:.4f} s (goal 1), first divergence {:.3f} s (goal 10)\n",
      ranks, calls, frontier_s, full_s);
  return 0;
}
