#include "cluster/turns.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <numeric>
#include <string_view>

#include "base/median.h"

namespace paramedic::cluster {
namespace {

// Of a beat's time, by which the slow one stands out from the next. Batches of uneven length and
// ranks that share cores give less, or give it now and then.
constexpr double kTimes = 1.6;
constexpr double kStandingOutMin = 0.8;  // of the cost lies in beats in which one stands out so
constexpr double kShareMin = 0.20;       // of all time
constexpr double kMsMin = 4;             // a beat
// Of the cost, what one rank may have: with more it is that rank's.
constexpr double kOneRankMax = 0.7;
constexpr size_t kParts = 4;  // of the span: it is so in each of them
constexpr double kMost = 0.8;
// Beats, as a share of all, that hold most of the cost. Below lies what ranks do now and then on
// behalf of all, each in its turn.
constexpr double kHabit = 0.12;
constexpr double kSideJobHabit = 0.30;
// Of the cost, the time in which ranks wanted a core and had none.
constexpr double kDelayMax = 0.25;
constexpr double kExplained = 0.5;  // of the cost, by a line that all ranks are seen at

struct Beat {
  size_t top = 0;
  double own = 0;
  double second = 0;
  [[nodiscard]] double cost() const { return own - second; }
};

Beat beat_of(const PaceSpan& span, size_t number) {
  Beat beat;
  for (size_t i = 0; i < span.ranks.size(); ++i) {
    const double ms = span.ranks[i].self_ms[number];
    if (ms > beat.own) {
      beat.second = beat.own;
      beat.own = ms;
      beat.top = i;
    } else {
      beat.second = std::max(beat.second, ms);
    }
  }
  return beat;
}

// The line at which the ranks together spend about as much as the turns cost, when there is one.
void name_line(const PaceSpan& span, double cost_a_beat_ms, Turns& turns) {
  std::vector<PaceLine> sums;
  for (const RankPace& rank : span.ranks) {
    for (const PaceLine& line : rank.lines) {
      const auto known = std::find_if(sums.begin(), sums.end(), [&](const PaceLine& sum) {
        return sum.kind == line.kind && sum.where.line == line.where.line &&
               sum.where.file == line.where.file;
      });
      if (known == sums.end()) {
        sums.push_back(line);
      } else {
        known->ms += line.ms;
      }
    }
  }
  size_t fitting = 0;
  for (const PaceLine& sum : sums) {
    const double ratio = sum.ms / cost_a_beat_ms;
    if (ratio < kExplained || ratio > 1 / kExplained) continue;
    ++fitting;
    turns.kind = sum.kind;
    turns.where = sum.where;
  }
  // Work that all ranks do in every beat may take as long by chance.
  if (fitting == 1) return;
  turns.kind.clear();
  turns.where = {};
}

// Milliseconds a beat, over all ranks, at work of these kinds.
double time_at(const PaceSpan& span, std::initializer_list<std::string_view> kinds) {
  double ms = 0;
  for (const RankPace& rank : span.ranks) {
    for (const PaceLine& line : rank.lines) {
      if (std::find(kinds.begin(), kinds.end(), line.kind) != kinds.end()) ms += line.ms;
    }
  }
  return ms;
}

}  // namespace

double habit_of(std::vector<double> values) {
  std::sort(values.begin(), values.end(), std::greater<>());
  const double all = std::accumulate(values.begin(), values.end(), 0.0);
  double sum = 0;
  size_t count = 0;
  while (count < values.size() && sum < kMost * all) sum += values[count++];
  return static_cast<double>(count) / static_cast<double>(values.size());
}

std::optional<Turns> turns_in(const PaceSpan& span) {
  const auto beats = static_cast<double>(span.beats);
  const double step_ms = span.wall_ms / beats;
  std::vector<double> cost(span.beats, 0);
  std::vector<double> by_rank(span.ranks.size(), 0);
  std::vector<double> by_part(kParts, 0);
  std::vector<double> slow;
  std::vector<double> others;
  double standing_out_ms = 0;
  double delay_ms = 0;
  Turns turns;
  for (size_t i = 0; i < span.beats; ++i) {
    const Beat beat = beat_of(span, i);
    cost[i] = beat.cost();
    turns.cost_ms += beat.cost();
    by_rank[beat.top] += beat.cost();
    by_part[i * kParts / span.beats] += beat.cost();
    if (beat.own < kTimes * beat.second || beat.cost() < kMsMin) continue;
    standing_out_ms += beat.cost();
    slow.push_back(beat.own);
    others.push_back(beat.second);
  }
  for (const RankPace& rank : span.ranks) delay_ms += rank.delay_within;
  if (turns.cost_ms < std::max(kShareMin * step_ms, kMsMin) * beats) return std::nullopt;
  if (standing_out_ms < kStandingOutMin * turns.cost_ms) return std::nullopt;
  if (delay_ms > kDelayMax * turns.cost_ms) return std::nullopt;
  const auto is_little = [&](double ms) { return ms < turns.cost_ms / kParts / 2; };
  if (std::any_of(by_part.begin(), by_part.end(), is_little)) return std::nullopt;
  if (*std::max_element(by_rank.begin(), by_rank.end()) > kOneRankMax * turns.cost_ms) {
    return std::nullopt;
  }
  const double cost_a_beat_ms = turns.cost_ms / beats;
  // Loaders fall behind now on one rank, now on another one: that is input_bottleneck's to judge.
  if (time_at(span, {"data"}) > kExplained * cost_a_beat_ms) return std::nullopt;
  const bool is_side_job =
      time_at(span, {"checkpoint", "validation"}) > kExplained * cost_a_beat_ms;
  if (habit_of(cost) < (is_side_job ? kSideJobHabit : kHabit)) return std::nullopt;
  turns.beats = static_cast<double>(slow.size()) / beats;
  turns.slow_ms = median_of(std::move(slow));
  turns.others_ms = median_of(std::move(others));
  for (const double ms : by_rank) turns.ranks += ms > turns.cost_ms / beats ? 1 : 0;
  name_line(span, cost_a_beat_ms, turns);
  return turns;
}

}  // namespace paramedic::cluster
