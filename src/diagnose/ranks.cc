#include "diagnose/ranks.h"

#include <re2/re2.h>

#include <algorithm>
#include <limits>
#include <map>

namespace paramedic::diagnose {
namespace {

// "[Rank 3]", "rank      : 3 (local_rank: 3)", "local_rank: 3 (pid: 77)".
int rank_in(const std::string& text) {
  static const RE2 kNamed(R"(\b[Rr]ank\s*[:=]?\s?(\d{1,6})\b)");
  static const RE2 kLocal(R"(\blocal_rank[:=] ?(\d{1,6})\b)");
  int rank = -1;
  if (RE2::PartialMatch(text, kNamed, &rank) || RE2::PartialMatch(text, kLocal, &rank)) return rank;
  return -1;
}

int rank_of(const Event& event) { return event.rank >= 0 ? event.rank : rank_in(event.text); }

// Ranks whose watchdog spoke, and the last collective that each had enqueued.
std::map<int, int64_t> watchdogs(const Timeline& timeline) {
  static const RE2 kEnqueued(R"(last enqueued(?: NCCL)? work: (\d+))");
  static const RE2 kSequence(R"(SeqNum=(\d+))");
  std::map<int, int64_t> found;
  for (const Event& event : timeline.events) {
    const bool timed_out =
        event.signature != nullptr && (event.signature->category == Category::kCollectiveTimeout ||
                                       event.signature->category == Category::kCollectiveFailure);
    const int rank = rank_of(event);
    if (!timed_out || rank < 0) continue;
    int64_t sequence = -1;
    if (!RE2::PartialMatch(event.text, kEnqueued, &sequence)) {
      RE2::PartialMatch(event.text, kSequence, &sequence);
    }
    int64_t& known = found.try_emplace(rank, sequence).first->second;
    known = std::max(known, sequence);
  }
  return found;
}

// The one rank that is behind the others, or the one that says nothing while all others do.
int silent_rank(const Timeline& timeline) {
  const std::map<int, int64_t> ranks = watchdogs(timeline);
  if (ranks.empty()) return -1;
  if (ranks.size() == 1) return ranks.begin()->first;
  int64_t low = std::numeric_limits<int64_t>::max();
  int64_t high = -1;
  for (const auto& [rank, sequence] : ranks) {
    if (sequence < 0) continue;
    low = std::min(low, sequence);
    high = std::max(high, sequence);
  }
  if (low < high) {
    int behind = -1;
    int count = 0;
    for (const auto& [rank, sequence] : ranks) {
      if (sequence != low) continue;
      behind = rank;
      ++count;
    }
    if (count == 1) return behind;
  }
  constexpr size_t kEnoughToMissOne = 3;
  const int last = ranks.rbegin()->first;
  if (ranks.size() < kEnoughToMissOne || static_cast<size_t>(last) != ranks.size()) return -1;
  for (int rank = 0; rank < last; ++rank) {
    if (!ranks.contains(rank)) return rank;
  }
  return -1;
}

}  // namespace

int first_failing_rank(const Timeline& timeline, size_t cause) {
  const Event& event = timeline.events[cause];
  const bool timeout =
      event.signature != nullptr && event.signature->category == Category::kCollectiveTimeout;
  if (timeout) return silent_rank(timeline);
  const int own = rank_of(event);
  if (own >= 0) return own;
  // The launcher's summary names the first process that it saw fail.
  int named = -1;
  for (const Event& other : timeline.events) {
    if (other.signature != nullptr && other.signature->id == "elastic_first_failure") {
      named = rank_in(other.text);
    }
  }
  return named;
}

}  // namespace paramedic::diagnose
