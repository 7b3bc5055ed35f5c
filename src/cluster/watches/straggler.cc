// A rank that is slower than the others, so that all wait for it. Judged by its own work, since
// in synchronous training the step takes all ranks the same time. The idea of the score (ratio to
// the median of the others, robust z, what it costs) is that of the published detectors; that the
// cost to the job decides, and that time without a core is told apart, is ours.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/median.h"
#include "cluster/closures.h"
#include "cluster/neighbours.h"
#include "cluster/pace.h"
#include "cluster/turns.h"
#include "cluster/watch.h"

namespace paramedic::cluster {
namespace {

constexpr double kSpanMs = 12'000;    // looked at
constexpr double kSpanMsMin = 5'000;  // less is an opinion, not a habit
constexpr size_t kBeatsMin = 8;
constexpr int64_t kLookEveryNs = 1'000'000'000;
constexpr int64_t kTellEveryNs = 10'000'000'000;
// Of the time of a step that the others lose. Ranks that share cores differ by half of that.
constexpr double kShareMin = 0.15;
constexpr double kExcessMsMin = 4;
constexpr double kSlowdownMin = 1.10;
constexpr double kZMin = 4;
// Standard errors by which the mean difference of two ranks stands above zero. It is looked at many
// times in a job, and for the worst of many ranks; a habit stands above it by far.
constexpr double kErrorsMin = 5;
// Where the kernel gives a rank no core: shares of a busy machine are even over seconds only.
constexpr double kContendedShareMin = 0.30;
constexpr double kContendedMsMin = 8'000;
constexpr double kComputesMore = 1.5;
constexpr size_t kParts = 4;  // of the span: the same rank leads in each of them
// Beats, as a share of all, that hold most of the excess. Below lies what a rank does now and
// then on behalf of all: a checkpoint, an evaluation, a report each tenth step, and what a busy
// machine adds to that.
constexpr double kHabit = 0.16;
constexpr double kSideJobHabit = 0.30;  // where it is seen to be one of these
constexpr double kThrottledMin = 0.1;   // of the time, worth a word
constexpr double kNoisyCores = 0.5;     // used by others than the job, worth a word
constexpr double kExplained = 0.25;     // of the excess, by the line that is named

// Who is first, and by how much; milliseconds a beat.
struct Lead {
  size_t top = 0;
  double own = 0;
  double second = 0;
  double median = 0;  // of the others
  double z = 0;
  [[nodiscard]] double excess() const { return own - second; }
};

Lead lead_of(const std::vector<double>& values) {
  Lead lead;
  lead.top = static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin());
  lead.own = values[lead.top];
  std::vector<double> others = values;
  others.erase(others.begin() + static_cast<ptrdiff_t>(lead.top));
  lead.second = *std::max_element(others.begin(), others.end());
  lead.median = median_of(others);
  std::vector<double> away;
  for (const double other : others) away.push_back(std::abs(other - lead.median));
  // 1.4826 makes the median distance a standard deviation; the floor is what no clock tells.
  const double spread = std::max(1.4826 * median_of(std::move(away)), 0.02 * lead.median);
  lead.z = (lead.own - lead.median) / std::max(spread, 1e-3);
  return lead;
}

template <typename Measure>
Lead lead_by(const PaceSpan& span, const Measure& measure) {
  std::vector<double> values;
  for (const RankPace& rank : span.ranks) {
    values.push_back(measure(rank) / static_cast<double>(span.beats));
  }
  return lead_of(values);
}

bool leads(const Lead& lead, double step_ms, double share_min) {
  return lead.excess() >= std::max(kExcessMsMin, share_min * step_ms) && lead.z >= kZMin &&
         lead.own >= kSlowdownMin * lead.median;
}

// Whether `top` is first in every part of the span too.
bool is_steady(const PaceSpan& span, size_t top, double share_min) {
  const double step_ms = span.wall_ms / static_cast<double>(span.beats);
  for (size_t part = 0; part < kParts; ++part) {
    const auto first = static_cast<ptrdiff_t>(span.beats * part / kParts);
    const auto end = static_cast<ptrdiff_t>(span.beats * (part + 1) / kParts);
    std::vector<double> values;
    for (const RankPace& rank : span.ranks) {
      const auto begin = rank.self_ms.begin();
      values.push_back(std::accumulate(begin + first, begin + end, 0.0) /
                       static_cast<double>(std::max<ptrdiff_t>(1, end - first)));
    }
    const Lead lead = lead_of(values);
    if (lead.top != top || lead.excess() < share_min / 2 * step_ms) return false;
  }
  return true;
}

// Whether the difference to the next rank is more than the chance of a few long beats.
bool is_significant(const PaceSpan& span, size_t top) {
  size_t second = top == 0 ? 1 : 0;
  for (size_t i = 0; i < span.ranks.size(); ++i) {
    if (i != top && span.ranks[i].self_sum > span.ranks[second].self_sum) second = i;
  }
  const auto count = static_cast<double>(span.beats);
  double sum = 0;
  double squares = 0;
  for (size_t beat = 0; beat < span.beats; ++beat) {
    const double more = span.ranks[top].self_ms[beat] - span.ranks[second].self_ms[beat];
    sum += more;
    squares += more * more;
  }
  const double mean = sum / count;
  const double variance = std::max(0.0, squares / count - mean * mean);
  return mean > kErrorsMin * std::sqrt(variance / count);
}

// By beat: how much longer all wait for `top` than for the next one.
std::vector<double> cost_by_beat(const PaceSpan& span, size_t top) {
  std::vector<double> cost(span.beats, 0);
  for (size_t beat = 0; beat < span.beats; ++beat) {
    double second = 0;
    for (size_t i = 0; i < span.ranks.size(); ++i) {
      if (i != top) second = std::max(second, span.ranks[i].self_ms[beat]);
    }
    cost[beat] = std::max(0.0, span.ranks[top].self_ms[beat] - second);
  }
  return cost;
}

// What the slow rank does more of than the others.
struct Cause {
  std::string kind;
  rules::Where where;
  double ms = 0;  // a beat, more than the median of the others
  double still = 0;
};

double time_at(const RankPace& rank, const PaceLine& line) {
  double ms = 0;
  for (const PaceLine& other : rank.lines) {
    if (other.kind == line.kind && other.where.line == line.where.line &&
        other.where.file == line.where.file) {
      ms += other.ms;
    }
  }
  return ms;
}

Cause cause_of(const PaceSpan& span, size_t top, double excess_ms) {
  Cause cause;
  std::vector<double> gc;
  for (const RankPace& rank : span.ranks) gc.push_back(rank.gc_sum);
  const double own_gc = std::exchange(gc[top], 0.0);
  const double gc_ms =
      (own_gc - *std::max_element(gc.begin(), gc.end())) / static_cast<double>(span.beats);
  const bool is_gc = gc_ms > excess_ms / 2;
  for (const PaceLine& line : span.ranks[top].lines) {
    if ((line.kind == "gc") != is_gc) continue;
    std::vector<double> others;
    for (size_t i = 0; i < span.ranks.size(); ++i) {
      if (i != top) others.push_back(time_at(span.ranks[i], line));
    }
    const double ms = line.ms - median_of(std::move(others));
    if (ms > cause.ms) cause = {line.kind, line.where, ms, line.still};
  }
  if (is_gc) {
    cause.kind = "gc";
    cause.ms = gc_ms;
  }
  return cause;
}

const char* doing(const Cause& cause) {
  if (cause.kind == "data") return "in its data loader";
  if (cause.kind == "gc") return "collecting garbage";
  if (cause.kind == "checkpoint") return "writing a checkpoint";
  if (cause.kind == "validation") return "in an evaluation";
  if (cause.kind == "optimizer") return "in its optimizer";
  if (cause.kind == "backward") return "in its own backward pass";
  if (cause.kind == "contended") return "waiting for a core of its machine";
  return cause.still > 0.5 ? "sleeping, or reading" : "computing";
}

const char* fix_for(const Cause& cause) {
  if (cause.kind == "data") {
    return "make the loading as fast there as on the other ranks: its storage, its workers, the "
           "cost of its samples";
  }
  if (cause.kind == "gc") {
    return "call gc.freeze() after the set-up and collect on all ranks at the same steps "
           "(gc.disable() and gc.collect() each N steps), or drop the objects that pile up";
  }
  if (cause.kind == "checkpoint") return "write checkpoints seldom, or in a thread of their own";
  if (cause.kind == "contended") {
    return "give this rank a core of its own: look at its nice value, its CPU limit and what else "
           "runs there";
  }
  return "take the extra work of this rank out of the loop, or share it among the ranks";
}

class Straggler : public Watch {
 public:
  using Watch::Watch;

  void on_event(const store::EventRow& row) override {
    if (!pace_.on_event(row)) closures_.take(row);
  }
  void on_metric(const store::MetricRow& row) override { neighbours_.on_metric(row); }

  void tick(const Moment& moment) override {
    if (moment.time_ns < next_look_ns_) return;
    next_look_ns_ = moment.time_ns + kLookEveryNs;
    now_ns_ = moment.time_ns;
    look();
    look_at_workers();
  }

  void finish() override {
    look();
    look_at_workers();
  }

 private:
  void look() {
    const int64_t end = pace_.complete_beats();
    if (end == seen_) return;
    seen_ = end;
    const PaceSpan span = pace_.newest(kSpanMs);
    if (span.ranks.size() < 2 || span.beats < kBeatsMin || span.wall_ms < kSpanMsMin) return;
    if (look_for_work(span) || look_for_contention(span)) return;
    if (const auto turns = turns_in(span)) tell_turns(span, *turns);
  }

  // Of parameter servers, whose workers wait for nobody.
  void look_at_workers() {
    auto finding = closures_.slow_worker();
    if (!finding) return;
    const auto [told, is_first] = told_ns_.try_emplace(*finding->rank, now_ns_);
    if (!is_first && now_ns_ < told->second + kTellEveryNs) return;
    told->second = now_ns_;
    report(std::move(*finding));
  }

  // More work, or slower work, than the others have.
  bool look_for_work(const PaceSpan& span) {
    const double step_ms = span.wall_ms / static_cast<double>(span.beats);
    const Lead raw = lead_by(span, [](const RankPace& rank) { return rank.self_sum; });
    const Lead own = lead_by(span, [](const RankPace& rank) {
      return std::max(0.0, rank.self_sum - rank.delay_within);
    });
    if (raw.top != own.top || !leads(raw, step_ms, kShareMin) || !leads(own, step_ms, kShareMin)) {
      return false;
    }
    if (!is_steady(span, raw.top, kShareMin)) return false;
    const Cause cause = cause_of(span, raw.top, raw.excess());
    const std::vector<double> cost = cost_by_beat(span, raw.top);
    const double habit = habit_of(cost);
    const bool is_side_job = cause.kind == "checkpoint" || cause.kind == "validation";
    if (cause.kind != "gc" && !is_significant(span, raw.top)) return false;
    if (cause.kind != "gc" && habit < (is_side_job ? kSideJobHabit : kHabit)) return false;
    tell(span, raw, cause, cost);
    return true;
  }

  // The same work, but no core to do it on.
  bool look_for_contention(const PaceSpan& span) {
    if (span.wall_ms < kContendedMsMin) return false;
    const double step_ms = span.wall_ms / static_cast<double>(span.beats);
    const Lead full =
        lead_by(span, [](const RankPace& rank) { return rank.self_sum + rank.delay_beside; });
    const Lead delay =
        lead_by(span, [](const RankPace& rank) { return rank.delay_within + rank.delay_beside; });
    if (full.top != delay.top || !leads(full, step_ms, kContendedShareMin)) return false;
    if (delay.own < 2 * delay.second || delay.excess() < full.excess() / 2) return false;
    if (!is_steady(span, full.top, kShareMin)) return false;
    Cause cause;
    cause.kind = "contended";
    cause.ms = delay.excess();
    tell(span, full, cause, cost_by_beat(span, full.top));
    return true;
  }

  void tell(const PaceSpan& span, const Lead& lead, const Cause& cause,
            const std::vector<double>& cost) {
    const RankPace& slow = span.ranks[lead.top];
    const auto [told, is_first] = told_ns_.try_emplace(slow.rank, now_ns_);
    if (!is_first && now_ns_ < told->second + kTellEveryNs) return;
    told->second = now_ns_;
    const double step_ms = span.wall_ms / static_cast<double>(span.beats);
    const double cost_ms = std::accumulate(cost.begin(), cost.end(), 0.0);
    const double faster = span.wall_ms / std::max(span.wall_ms - cost_ms, span.wall_ms / 1000);
    const bool is_named = cause.where.line > 0 && cause.ms >= kExplained * lead.excess();
    rules::Finding finding;
    const Lead computed = lead_by(span, [](const RankPace& rank) { return rank.cpu_sum; });
    // Who has more to compute is slow by that, however few cores there are.
    const bool computes_more =
        computed.top == lead.top && computed.own >= kComputesMore * computed.second;
    const bool is_chance =
        cause.kind == "contended" && !computes_more && shares_are_chance(slow.rank);
    finding.severity = is_chance ? rules::Severity::kInfo : rules::Severity::kWarning;
    finding.rank = slow.rank;
    if (span.first_step >= 0) finding.step = span.first_step;
    if (span.last_step >= 0) finding.last_step = span.last_step;
    finding.value = lead.own / std::max(lead.median, 0.1);
    finding.threshold = kSlowdownMin;
    finding.confidence = is_named ? 0.9 : 0.8;
    if (is_named) finding.where = cause.where;
    finding.message = fmt::format(
        "rank {} is slow and the others wait for it: of each step of {:.0f} ms it works {:.0f} ms, "
        "they {:.0f} ms; without that the job would be {:.2f} times as fast",
        slow.rank, step_ms, lead.own, lead.median, faster);
    if (is_named || cause.kind == "contended" || cause.kind == "gc") {
      finding.evidence.push_back(fmt::format(
          "{:.0f} ms a step more than the others {}{}", std::min(cause.ms, lead.own), doing(cause),
          is_named ? fmt::format(" at {}:{}", cause.where.file, cause.where.line) : ""));
    }
    if (cause.kind == "contended") tell_why(slow.rank, finding);
    finding.evidence.push_back(fmt::format(
        "over {} steps it cost the job {:.1f} of {:.1f} s, {:.0f} deviations from the median",
        span.beats, cost_ms / 1000, span.wall_ms / 1000, std::min(lead.z, 999.0)));
    if (const int nice = pace_.standings()[slow.rank].nice; nice > 0) {
      finding.evidence.push_back(fmt::format("it runs with nice {}", nice));
    }
    finding.evidence.emplace_back("from clocks inside each rank, waiting taken away");
    finding.fix = fix_for(cause);
    report(std::move(finding));
  }

  // Where the ranks want more cores than there are and nothing holds this one back, another one may
  // be short of them in the next minute: nothing is wrong with this rank.
  [[nodiscard]] bool shares_are_chance(int32_t rank) const {
    const auto standings = pace_.standings();
    int threads = 0;
    int cores = 0;
    for (const auto& [number, standing] : standings) {
      threads += standing.threads;
      cores = std::max(cores, standing.cores);
    }
    const PaceStanding& own = standings.at(rank);
    const bool held_back =
        own.nice > 0 || own.cores < cores || neighbours_.throttled_share(own.pid) >= kThrottledMin;
    return threads > cores && cores > 0 && !held_back;
  }

  // Who keeps a rank off its core, as far as that is seen from outside.
  void tell_why(int32_t rank, rules::Finding& finding) const {
    const double throttled = neighbours_.throttled_share(pace_.standings()[rank].pid);
    if (throttled >= kThrottledMin) {
      finding.evidence.push_back(
          fmt::format("its control group has used what it may for {:.0f} % of the time (cpu.max)",
                      100 * std::min(throttled, 1.0)));
    } else if (neighbours_.cores_used() >= kNoisyCores) {
      finding.evidence.push_back(
          fmt::format("a noisy neighbour: processes outside of the job use {:.1f} of the machine's "
                      "{:.0f} cores",
                      neighbours_.cores_used(), neighbours_.cores()));
    }
  }

  // No rank by name: fixing one of them would give nothing.
  void tell_turns(const PaceSpan& span, const Turns& turns) {
    if (now_ns_ < next_turns_ns_) return;
    next_turns_ns_ = now_ns_ + kTellEveryNs;
    const bool is_gc = turns.kind == "gc";
    rules::Finding finding;
    finding.severity = rules::Severity::kWarning;
    if (span.first_step >= 0) finding.step = span.first_step;
    if (span.last_step >= 0) finding.last_step = span.last_step;
    finding.value = turns.slow_ms / std::max(turns.others_ms, 0.1);
    finding.threshold = kSlowdownMin;
    finding.confidence = 0.8;
    finding.message = fmt::format(
        "{} ranks take turns at being slow, in {:.0f} % of the steps: then one of them works "
        "{:.0f} ms and the others {:.0f} ms, and wait; without that the job would be {:.2f} times "
        "as fast",
        turns.ranks, 100 * turns.beats, turns.slow_ms, turns.others_ms,
        span.wall_ms / std::max(span.wall_ms - turns.cost_ms, span.wall_ms / 1000));
    if (turns.where.line > 0) {
      finding.where = turns.where;
      finding.evidence.push_back(fmt::format("together they {} as long as that takes at {}:{}",
                                             is_gc ? "collect garbage" : "are seen",
                                             turns.where.file, turns.where.line));
    }
    finding.evidence.push_back(fmt::format("over {} steps it cost the job {:.1f} of {:.1f} s",
                                           span.beats, turns.cost_ms / 1000, span.wall_ms / 1000));
    finding.evidence.emplace_back("from clocks inside each rank, waiting taken away");
    finding.fix = is_gc ? fix_for({.kind = "gc", .where = {}})
                        : "let all ranks do it at the same steps, so that none waits: together it "
                          "takes the time of one";
    report(std::move(finding), "turns");
  }

  Pace pace_;
  Closures closures_;
  Neighbours neighbours_;
  int64_t seen_ = 0;
  int64_t now_ns_ = 0;
  int64_t next_look_ns_ = 0;
  int64_t next_turns_ns_ = 0;
  std::map<int32_t, int64_t> told_ns_;  // by rank
};

}  // namespace

WatchEntry straggler_watch() {
  return {{"straggler",
           rules::Severity::kWarning,
           "A rank is slower than the others, and all wait for it",
           "Over at least five seconds one rank works longer in each step than every other one, "
           "by 15 % of the step and four robust deviations, steadily; time in which it waits for "
           "others, or in which the kernel had no core for it, is not counted as work. What a rank "
           "does in few steps only (a checkpoint, an evaluation) is not meant.",
           "take the extra work of this rank out of the loop, or share it among the ranks",
           {}},
          &make_watch<Straggler>};
}

}  // namespace paramedic::cluster
