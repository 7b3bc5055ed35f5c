// All ranks wait for their input most of the time: not one of them is slow, the way data comes is.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cluster/pace.h"
#include "cluster/watch.h"

namespace paramedic::cluster {
namespace {

constexpr double kSpanMs = 12'000;
constexpr double kSpanMsMin = 6'000;
constexpr size_t kBeatsMin = 8;
constexpr int64_t kLookEveryNs = 1'000'000'000;
constexpr int64_t kTellEveryNs = 10'000'000'000;
// Of a step, on half of the ranks at least; and on each of them, else it is a slow rank.
constexpr double kShareMin = 0.5;
constexpr double kShareMinEach = 0.3;
// A small model is fed by plain Python in a few ms a step, and that is well so.
constexpr double kMsMin = 20;

bool is_input(const PaceLine& line) { return line.kind == "data"; }

// Milliseconds a beat at reading. What the kernel kept from it, like from all else, is not counted.
double input_ms(const RankPace& rank) {
  double ms = 0;
  for (const PaceLine& line : rank.lines) ms += is_input(line) ? line.ms : 0;
  const double without = rank.self_sum > 0 ? 1 - rank.delay_within / rank.self_sum : 1;
  return ms * std::clamp(without, 0.0, 1.0);
}

// The line at which all ranks together read longest.
const PaceLine* longest_line(const PaceSpan& span) {
  std::vector<std::pair<double, const PaceLine*>> sums;
  for (const RankPace& rank : span.ranks) {
    for (const PaceLine& line : rank.lines) {
      if (!is_input(line) || line.where.line <= 0) continue;
      const auto known = std::find_if(sums.begin(), sums.end(), [&](const auto& sum) {
        return sum.second->where.line == line.where.line &&
               sum.second->where.file == line.where.file;
      });
      if (known == sums.end()) {
        sums.emplace_back(line.ms, &line);
      } else {
        known->first += line.ms;
      }
    }
  }
  const auto longest = std::max_element(sums.begin(), sums.end());
  return longest == sums.end() ? nullptr : longest->second;
}

class InputBottleneck : public Watch {
 public:
  using Watch::Watch;

  void on_event(const store::EventRow& row) override { pace_.on_event(row); }

  void tick(const Moment& moment) override {
    if (moment.time_ns < next_look_ns_) return;
    next_look_ns_ = moment.time_ns + kLookEveryNs;
    if (look()) next_look_ns_ = moment.time_ns + kTellEveryNs;
  }

  void finish() override { look(); }

 private:
  // Whether it was told.
  bool look() {
    if (pace_.complete_beats() == seen_) return false;
    seen_ = pace_.complete_beats();
    const PaceSpan span = pace_.newest(kSpanMs);
    if (span.ranks.size() < 2 || span.beats < kBeatsMin || span.wall_ms < kSpanMsMin) return false;
    const double step_ms = span.wall_ms / static_cast<double>(span.beats);
    std::vector<double> times;
    for (const RankPace& rank : span.ranks) times.push_back(input_ms(rank));
    std::sort(times.begin(), times.end());
    const double middle = times[(times.size() - 1) / 2];
    if (middle < kMsMin || middle < kShareMin * step_ms || times[0] < kShareMinEach * step_ms) {
      return false;
    }
    tell(span, step_ms, middle);
    return true;
  }

  void tell(const PaceSpan& span, double step_ms, double input) {
    rules::Finding finding;
    finding.severity = rules::Severity::kWarning;
    if (span.first_step >= 0) finding.step = span.first_step;
    if (span.last_step >= 0) finding.last_step = span.last_step;
    finding.value = input / step_ms;
    finding.threshold = kShareMin;
    finding.confidence = 0.9;
    finding.message = fmt::format(
        "all ranks wait for their input: {:.0f} ms of each step of {:.0f} ms; with input that is "
        "ready in time the job would be up to {:.1f} times as fast",
        input, step_ms, step_ms / std::max(step_ms - input, step_ms / 1000));
    if (const PaceLine* line = longest_line(span); line != nullptr) {
      finding.where = line->where;
      finding.evidence.push_back(
          fmt::format("mostly {} at {}:{} in {}", line->still > 0.5 ? "waiting" : "computing",
                      line->where.file, line->where.line, line->where.function));
    }
    finding.evidence.push_back(fmt::format("over {} steps, by looks at the stacks of {} ranks",
                                           span.beats, span.ranks.size()));
    report(std::move(finding));
  }

  Pace pace_;
  int64_t seen_ = 0;
  int64_t next_look_ns_ = 0;
};

}  // namespace

WatchEntry input_bottleneck_watch() {
  return {{"input_bottleneck",
           rules::Severity::kWarning,
           "All ranks wait for their input most of the time",
           "Over at least six seconds half of the ranks spend half of each step and 20 ms in their "
           "data loaders or in functions that read, and every rank 30 % of it.",
           "read ahead (num_workers, prefetch_factor, persistent_workers), keep the decoded "
           "samples, or bring the files nearer",
           {}},
          &make_watch<InputBottleneck>};
}

}  // namespace paramedic::cluster
