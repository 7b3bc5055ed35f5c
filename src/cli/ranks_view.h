#pragma once
// What the ranks of a run did over time, who waited for whom at the end, and a paragraph about it.
// Only of runs with several ranks. Plain values; bounded by kRanksViewMax ranks of kStripCells.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "cli/text.h"
#include "rules/finding.h"
#include "store/run.h"

namespace paramedic::cli {

constexpr size_t kStripCells = 240;
constexpr size_t kRanksViewMax = 20'000;

// What a rank does, as far as that is known.
enum class Act : uint8_t {
  kNone,        // it is not there, or tells nothing
  kWorks,       // computes, or does what nothing is known of
  kData,        // brings the next batch
  kEvaluates,   // or saves: one rank may do so for all
  kWaits,       // for other ranks
  kStandsStill  // is in no call, and does not come forward
};
constexpr size_t kActs = 6;
const char* act_name(Act act);

struct RankStrip {
  int32_t first = 0;  // rank; of several that are shown as one, the lowest and the highest
  int32_t last = 0;
  size_t ranks = 1;
  std::array<Act, kStripCells> cells{};
  std::array<double, kActs> ms{};  // by act, of a rank
};

// Ranks in one call at the end, and those who have not come to it.
struct RankWait {
  std::vector<int32_t> waiters;
  std::string in;  // "all_reduce of group default_pg at train.py:61"
  std::vector<int32_t> missing;
  std::string they;  // what the first of these does: "stands at helper.py:7"
};

struct RanksView {
  double seconds = 0;             // that the cells span
  std::vector<RankStrip> strips;  // by rank
  std::vector<RankWait> waits;    // most waiters first; only what lasted for two seconds
  std::string verdict;
};

// Reads events and collectives. `now`: seconds since 1970 UTC, the end of what still runs.
Result<RanksView> build_ranks_view(store::RunReader& reader,
                                   const std::vector<rules::Finding>& findings, double now);

// The paragraph: what was found between the ranks, how they spent their time, who waits.
std::string ranks_verdict(const RanksView& view, const std::vector<rules::Finding>& findings);

// At most `rows_max` strips: ranks that differ most from the others keep their own, neighbours of
// the rest are one, which shows what most of them did.
std::vector<RankStrip> folded_strips(const std::vector<RankStrip>& strips, size_t rows_max);
// What most of the cells that fall into each of `columns` show.
std::vector<Act> strip_columns(const RankStrip& strip, size_t columns);

}  // namespace paramedic::cli
