#include "diagnose/collectives.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <re2/re2.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

namespace paramedic::diagnose {
namespace {

constexpr size_t kRanksMax = 100'000;
constexpr size_t kShownMax = 8;

// WorkNCCL(SeqNum=7219, OpType=BROADCAST, NumelIn=64, NumelOut=64, Timeout(ms)=600000)
struct Work {
  int64_t sequence = -1;
  std::string operation;
  int64_t elements = -1;

  [[nodiscard]] std::string text() const {
    return elements < 0 ? operation : fmt::format("{}[{}]", operation, elements);
  }
};

// Pieces of different sizes are what it is for.
bool may_differ_in_size(const std::string& operation) {
  return operation.starts_with("ALLTOALL") || operation.starts_with("SEND") ||
         operation.starts_with("RECV") || operation.starts_with("COALESCED");
}

// The first collective that timed out on each rank: later ones are its consequence.
std::map<int, Work> works_of(const Timeline& timeline) {
  static const RE2 kWork(R"(SeqNum=(\d+), OpType=(\w+)(?:, NumelIn=(\d+))?)");
  static const RE2 kRank(R"(\b[Rr]ank (\d{1,6})\])");
  std::map<int, Work> works;
  for (const Event& event : timeline.events) {
    Work work;
    std::string elements;
    if (!RE2::PartialMatch(event.text, kWork, &work.sequence, &work.operation, &elements)) continue;
    int rank = event.rank;
    if (rank < 0 && !RE2::PartialMatch(event.text, kRank, &rank)) continue;
    constexpr size_t kDigitsMax = 18;
    if (!elements.empty() && elements.size() <= kDigitsMax) {
      work.elements = std::strtoll(elements.c_str(), nullptr, 10);
    }
    if (works.size() >= kRanksMax) break;
    const auto [known, is_new] = works.try_emplace(rank, work);
    if (!is_new && work.sequence < known->second.sequence) known->second = work;
  }
  return works;
}

std::string ranks_text(const std::vector<int>& ranks) {
  const size_t shown = std::min(ranks.size(), kShownMax);
  const std::vector<int> some(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(shown));
  return fmt::format("{} {}{}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(some, ", "),
                     shown < ranks.size() ? ", …" : "");
}

// Ranks that were at the same number, but not in the same operation.
bool tell_mismatch(const std::map<int, Work>& works, Verdict& verdict) {
  std::map<int64_t, std::map<std::string, std::vector<int>>> by_sequence;
  for (const auto& [rank, work] : works) {
    const std::string what = may_differ_in_size(work.operation) ? work.operation : work.text();
    by_sequence[work.sequence][what].push_back(rank);
  }
  for (const auto& [sequence, by_what] : by_sequence) {
    if (by_what.size() < 2) continue;
    std::vector<std::string> parts;
    std::vector<int> odd;
    size_t total = 0;
    size_t most = 0;
    for (const auto& [what, ranks] : by_what) {
      parts.push_back(fmt::format("{} in {}", ranks_text(ranks), what));
      total += ranks.size();
      most = std::max(most, ranks.size());
    }
    for (const auto& [what, ranks] : by_what) {
      if (2 * most > total && ranks.size() < most)
        odd.insert(odd.end(), ranks.begin(), ranks.end());
    }
    verdict.category = Category::kCollectiveMismatch;
    verdict.mechanism = "watchdogs_disagree";
    verdict.domain = Domain::kUserCode;
    verdict.retry = Retry::kNever;
    verdict.retry_reason = "the ranks will part again at the same place";
    verdict.confidence = 0.9;
    verdict.title =
        fmt::format("the ranks parted before collective #{}: {}", sequence, fmt::join(parts, "; "));
    verdict.first_failing_rank = odd.size() == 1 ? odd.front() : -1;
    verdict.fix =
        "make every rank run the same collectives with the same shapes in the same order: look for "
        "a call under `if rank == …`, for data that decides about a call, and for unequal batches";
    verdict.collect_next.clear();
    return true;
  }
  return false;
}

// Ranks that say nothing are those whose numbers are missing; the last of them cannot be known.
std::vector<int> silent_ranks(const std::map<int, Work>& works) {
  std::vector<int> silent;
  int expected = 0;
  for (const auto& [rank, work] : works) {
    for (; expected < rank && silent.size() < kRanksMax; ++expected) silent.push_back(expected);
    expected = rank + 1;
  }
  return silent;
}

bool recorder_was_off(const Timeline& timeline) {
  return std::any_of(timeline.events.begin(), timeline.events.end(), [](const Event& event) {
    return event.text.find("FlightRecorder is disabled") != std::string::npos;
  });
}

void tell_frontier(const std::map<int, Work>& works, Verdict& verdict) {
  const auto behind = [](const auto& a, const auto& b) {
    return a.second.sequence < b.second.sequence;
  };
  const auto [low, high] = std::minmax_element(works.begin(), works.end(), behind);
  if (low->second.sequence < high->second.sequence) {
    verdict.title =
        fmt::format("{}; rank {} is behind, in #{} ({}), when others are in #{}", verdict.title,
                    low->first, low->second.sequence, low->second.text(), high->second.sequence);
    return;
  }
  const std::vector<int> silent = silent_ranks(works);
  const std::string where = fmt::format("#{} ({})", low->second.sequence, low->second.text());
  if (!silent.empty()) {
    verdict.title = fmt::format("{} did not come to collective {}, in which {} others waited",
                                ranks_text(silent), where, works.size());
    if (silent.size() == 1) verdict.first_failing_rank = silent.front();
    verdict.confidence = std::max(verdict.confidence, 0.8);
    return;
  }
  // Nobody is missing: what is left is what carries the data. One rank alone proves nothing.
  if (works.size() < 2) return;
  verdict.title = fmt::format(
      "all {} ranks were in the same collective {} and it did not end: the "
      "network or a device, no missing rank",
      works.size(), where);
  verdict.mechanism = "stalled_inside_collective";
  verdict.domain = Domain::kPlatform;
  verdict.first_failing_rank = -1;
  verdict.fix =
      "look for errors of NICs and GPUs on these hosts (dmesg, nvidia-smi -q, ibstat), measure the "
      "paths between them (`paramedic cluster probe`), and see NCCL_DEBUG=INFO";
}

}  // namespace

void compare_collectives(const Timeline& timeline, Verdict& verdict) {
  if (verdict.category != Category::kCollectiveTimeout) return;
  const std::map<int, Work> works = works_of(timeline);
  if (!works.empty() && tell_mismatch(works, verdict)) return;
  if (!works.empty()) tell_frontier(works, verdict);
  if (!recorder_was_off(timeline)) return;
  verdict.collect_next =
      "the flight recorder was off, so nothing tells which rank was elsewhere: run again under "
      "`paramedic run`, which records every collective, or with TORCH_FR_BUFFER_SIZE=2000 and "
      "TORCH_NCCL_DUMP_ON_TIMEOUT=1, and give the dumps to `paramedic cluster collectives`";
}

}  // namespace paramedic::diagnose
