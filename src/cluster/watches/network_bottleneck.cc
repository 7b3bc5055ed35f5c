// The network between the ranks holds the job up: all ranks are there, and what they exchange takes
// long. That it is the network, whose link, and whether bytes or round trips are what takes the
// time, is told by the kernel's figures of each connection; without these nothing is said, since
// ranks without a core exchange slowly too.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "base/median.h"
#include "cluster/exchanges.h"
#include "cluster/links.h"
#include "cluster/pace.h"
#include "cluster/watch.h"

namespace paramedic::cluster {
namespace {

constexpr double kSpanMs = 12'000;    // looked at
constexpr double kSpanMsMin = 6'000;  // less is an opinion
constexpr size_t kBeatsMin = 6;
constexpr size_t kExchangesMin = 8;
constexpr int64_t kLookEveryNs = 1'000'000'000;
constexpr int64_t kTellEveryNs = 10'000'000'000;
constexpr int kLooksMin = 3;  // in a row that say the same
// Of all time, in exchanges for which every rank is there; and of one step.
constexpr double kShareMin = 0.25;
constexpr double kStepMsMin = 5;
// What the links' own figures have to explain of that time.
constexpr double kExplainedMin = 0.25;
// A round trip between machines of one hall takes 0.05 to 0.5 ms. One rank's stands out; that of
// all of them is long.
constexpr double kRttMsMin = 1;
constexpr double kRttTimes = 4;
constexpr double kRttMsMinOfAll = 2;
// As much as a link of 1 Gbit/s lets through and a quarter more. Loopback and the networks that
// are built for training carry ten times as much.
constexpr double kRateMaxOfAll = 156e6;
constexpr double kRateTimes = 3;
constexpr double kRateMax = 1.25e9;
// Links that carry less of the most busy one's bytes carry acknowledgements and the like.
constexpr double kHeavy = 0.1;
// Sent in one step. With less, the time in which it is on its way is that of a delayed
// acknowledgement.
constexpr double kStepBytesMin = 64 * 1024;
// Of the time that ranks compute, that in which they want a core and have none. Where it is more,
// what all of them exchange is slow for want of cores.
constexpr double kCrowdedMax = 0.15;
constexpr double kLostShare = 0.005;  // of packets, worth a word

// What exchanging takes while nobody is waited for.
struct Exchanging {
  double share = 0;    // of all time
  double step_ms = 0;  // of which this is a share; of a call where no optimizer steps
  double calls = 1;    // in such a step, at least
  double span_ms = 0;
  size_t steps = 0;        // 0: no optimizer steps
  bool is_crowded = true;  // ranks have no core when they want one, or that is not known
  int64_t first_step = -1;
  int64_t last_step = -1;
  [[nodiscard]] double ms() const { return share * step_ms; }
};

// A rank by the best of its links: what one bad peer does to a rank is not its own doing.
struct Side {
  int32_t rank = 0;
  std::optional<double> rtt_ms;
  std::optional<double> rate_bytes_s;  // where it sends or gets much
  double busiest_ms = 0;               // while something was on its way over one of its links
  double again_share = 0;
};

enum class Cause : uint8_t { kLatency, kBandwidth };

struct Verdict {
  Cause cause = Cause::kLatency;
  std::vector<int32_t> ranks;  // whose links are bad; empty: all are
  double measured = 0;         // round trip in ms, or bytes a second
  double others = 0;           // the same of the ranks that are well
  double again_share = 0;
};

// A link counts for its rate that has carried at least `bytes_min`.
std::vector<Side> sides_of(const std::vector<Link>& links, double bytes_min) {
  double most = 0;
  for (const Link& link : links) most = std::max(most, link.sent_bytes);
  std::map<int32_t, Side> sides;
  for (const Link& link : links) {
    for (const int32_t rank : {link.from, link.to}) {
      Side& side = sides[rank];
      side.rank = rank;
      if (link.rtt_ms) side.rtt_ms = std::min(side.rtt_ms.value_or(*link.rtt_ms), *link.rtt_ms);
      if (link.sent_bytes < std::max(bytes_min, kHeavy * most)) continue;
      const double rate = link.sent_bytes / std::max(link.busy_ms, 0.1) * 1000;
      side.rate_bytes_s = std::max(side.rate_bytes_s.value_or(rate), rate);
      side.busiest_ms = std::max(side.busiest_ms, link.busy_ms);
      side.again_share = std::max(side.again_share, link.again_share);
    }
  }
  std::vector<Side> all;
  for (const auto& [rank, side] : sides) all.push_back(side);
  return all;
}

// Splits `sides` into those that are bad and the others. A minority can be bad by comparison; where
// most are, all are judged by what is long or slow anywhere.
template <typename Value, typename IsBad>
std::optional<Verdict> split(const std::vector<Side>& sides, const Value& value,
                             const IsBad& is_bad, double bound_of_all) {
  std::vector<double> all;
  for (const Side& side : sides) all.push_back(value(side));
  const double middle = median_of(all);
  Verdict verdict;
  std::vector<double> bad;
  std::vector<double> well;
  for (const Side& side : sides) {
    const bool stands_out = is_bad(value(side), middle);
    (stands_out ? bad : well).push_back(value(side));
    if (stands_out) verdict.ranks.push_back(side.rank);
    if (stands_out) verdict.again_share = std::max(verdict.again_share, side.again_share);
  }
  if (!bad.empty() && 2 * bad.size() < sides.size()) {
    verdict.measured = median_of(bad);
    verdict.others = median_of(well);
    return verdict;
  }
  if (!is_bad(middle, bound_of_all)) return std::nullopt;
  verdict.ranks.clear();
  verdict.measured = middle;
  for (const Side& side : sides) {
    verdict.again_share = std::max(verdict.again_share, side.again_share);
  }
  return verdict;
}

std::optional<Verdict> long_way(std::vector<Side> sides) {
  std::erase_if(sides, [](const Side& side) { return !side.rtt_ms; });
  if (sides.size() < 2) return std::nullopt;
  return split(
      sides, [](const Side& side) { return *side.rtt_ms; },
      [](double rtt_ms, double middle) {
        return rtt_ms >= std::max(kRttMsMin, kRttTimes * middle);
      },
      kRttMsMinOfAll / kRttTimes);
}

std::optional<Verdict> narrow_way(std::vector<Side> sides) {
  std::erase_if(sides, [](const Side& side) { return !side.rate_bytes_s; });
  if (sides.size() < 2) return std::nullopt;
  auto verdict = split(
      sides, [](const Side& side) { return *side.rate_bytes_s; },
      [](double rate, double middle) { return rate <= std::min(kRateMax, middle / kRateTimes); },
      kRateMaxOfAll * kRateTimes);
  if (verdict) verdict->cause = Cause::kBandwidth;
  return verdict;
}

std::string in_rate(double bytes_s) {
  const double mbit = bytes_s * 8 / 1e6;
  return mbit < 1000 ? fmt::format("{:.0f} Mbit/s", mbit)
                     : fmt::format("{:.1f} Gbit/s", mbit / 1000);
}

bool is_crowded(const PaceSpan& span) {
  double delay = 0;
  double cpu = 0;
  for (const RankPace& rank : span.ranks) {
    delay += rank.delay_within + rank.delay_beside;
    cpu += rank.cpu_sum;
  }
  return delay > kCrowdedMax * cpu;
}

// Whether bytes took more of the time than calls did.
bool is_by_bytes(const SizeFit& fit, const std::deque<Exchange>& exchanges) {
  double calls = 0;
  double bytes = 0;
  for (const Exchange& exchange : exchanges) {
    if (exchange.operation != fit.operation) continue;
    calls += 1;
    bytes += exchange.bytes;
  }
  return fit.byte_ms * bytes > fit.call_ms * calls;
}

class NetworkBottleneck : public Watch {
 public:
  using Watch::Watch;

  void on_event(const store::EventRow& row) override {
    if (!pace_.on_event(row)) links_.on_event(row);
  }

  void tick(const Moment& moment) override {
    exchanges_.look(job().groups());
    if (moment.time_ns < next_look_ns_) return;
    next_look_ns_ = moment.time_ns + kLookEveryNs;
    look(moment.time_ns);
  }

 private:
  void look(int64_t now_ns) {
    const std::deque<Exchange> exchanges = exchanges_.newest(kSpanMs);
    const Exchanging exchanging = exchanging_now(exchanges);
    std::optional<Verdict> verdict;
    const std::optional<SizeFit> fit = fit_over_sizes(exchanges);
    if (exchanging.share >= kShareMin && exchanging.ms() >= kStepMsMin) {
      verdict = judge(exchanging, exchanges, fit);
    }
    if (!verdict) {
      looks_ = 0;
      return;
    }
    const bool is_same =
        looks_ > 0 && last_.cause == verdict->cause && last_.ranks == verdict->ranks;
    looks_ = is_same ? looks_ + 1 : 1;
    last_ = *verdict;
    if (looks_ < kLooksMin || now_ns < next_tell_ns_) return;
    next_tell_ns_ = now_ns + kTellEveryNs;
    tell(exchanging, *verdict, fit);
  }

  // By the beats of the ranks: in each of them the one that waited least waited for nobody. Where
  // no optimizer steps, by the calls that were seen.
  [[nodiscard]] Exchanging exchanging_now(const std::deque<Exchange>& exchanges) const {
    Exchanging now;
    double calls_ms = 0;
    int64_t first_ns = INT64_MAX;
    int64_t last_ns = 0;
    for (const Exchange& exchange : exchanges) {
      calls_ms += exchange.ms;
      first_ns = std::min(first_ns, exchange.left_ns - static_cast<int64_t>(exchange.ms * 1e6));
      last_ns = std::max(last_ns, exchange.left_ns);
    }
    const PaceSpan span = pace_.newest(kSpanMs);
    if (span.ranks.size() >= 2 && span.beats >= kBeatsMin && span.wall_ms >= kSpanMsMin) {
      double waited_ms = 0;
      for (size_t beat = 0; beat < span.beats; ++beat) {
        double least = span.ranks[0].wait_ms[beat];
        for (const RankPace& rank : span.ranks) least = std::min(least, rank.wait_ms[beat]);
        waited_ms += least;
      }
      const auto beats = static_cast<double>(span.beats);
      now.share = waited_ms / span.wall_ms;
      now.step_ms = span.wall_ms / beats;
      now.calls += static_cast<double>(exchanges.size()) / beats;
      now.span_ms = span.wall_ms;
      now.steps = span.beats;
      now.is_crowded = is_crowded(span);
      now.first_step = span.first_step;
      now.last_step = span.last_step;
      return now;
    }
    if (exchanges.size() < kExchangesMin) return now;
    now.span_ms = static_cast<double>(last_ns - first_ns) / 1e6;
    if (now.span_ms < kSpanMsMin) return now;
    now.share = std::min(1.0, calls_ms / now.span_ms);
    now.step_ms = now.span_ms / static_cast<double>(exchanges.size());
    return now;
  }

  [[nodiscard]] std::optional<Verdict> judge(const Exchanging& exchanging,
                                             const std::deque<Exchange>& exchanges,
                                             const std::optional<SizeFit>& fit) const {
    const std::vector<Link> links = links_.newest(job().ranks(), exchanging.span_ms);
    const double steps = exchanging.span_ms / exchanging.step_ms;
    const std::vector<Side> sides = sides_of(links, kStepBytesMin * steps);
    std::optional<Verdict> way = long_way(sides);
    std::optional<Verdict> width = narrow_way(sides);
    // A ring goes round twice, once less than it has ranks.
    const double rounds = static_cast<double>(sides.size()) - 1;
    const double way_ms = way ? exchanging.calls * rounds * way->measured : 0;
    double busiest_ms = 0;
    for (const Side& side : sides) busiest_ms = std::max(busiest_ms, side.busiest_ms);
    const double width_share = busiest_ms / exchanging.span_ms / exchanging.share;
    if (way_ms < kExplainedMin * exchanging.ms()) way.reset();
    if (width_share < kExplainedMin) width.reset();
    if (width && width->ranks.empty() && exchanging.is_crowded) width.reset();
    if (!way || !width) return way ? way : width;
    // A long way makes a link slow as well: every message waits for answers before it may grow.
    return fit && is_by_bytes(*fit, exchanges) ? width : way;
  }

  void tell(const Exchanging& exchanging, const Verdict& verdict,
            const std::optional<SizeFit>& fit) {
    const bool is_latency = verdict.cause == Cause::kLatency;
    rules::Finding finding;
    finding.severity = rules::Severity::kWarning;
    if (verdict.ranks.size() == 1) finding.rank = verdict.ranks[0];
    if (exchanging.first_step >= 0) finding.step = exchanging.first_step;
    if (exchanging.last_step >= 0) finding.last_step = exchanging.last_step;
    finding.value = exchanging.share;
    finding.threshold = kShareMin;
    finding.confidence = verdict.ranks.empty() ? 0.8 : 0.9;
    const std::string whose = verdict.ranks.empty() ? "between the ranks"
                              : verdict.ranks.size() == 1
                                  ? fmt::format("of rank {}", verdict.ranks[0])
                                  : fmt::format("of ranks {}", fmt::join(verdict.ranks, ", "));
    finding.message = fmt::format(
        "the network {} has {}: with all ranks there, {:.0f} of {:.0f} ms of each {} pass in "
        "exchanges",
        whose, is_latency ? "a long way (latency)" : "too little bandwidth", exchanging.ms(),
        exchanging.step_ms, exchanging.steps > 0 ? "step" : "call");
    finding.evidence.push_back(figures_of(verdict));
    if (fit) {
      finding.evidence.push_back(fmt::format(
          "{} takes {:.1f} ms for {:.0f} bytes and {:.1f} ms for {:.0f}: {:.1f} ms a call and "
          "{:.1f} ms a megabyte",
          fit->operation, fit->smallest_ms, fit->smallest_bytes, fit->largest_ms,
          fit->largest_bytes, fit->call_ms, fit->byte_ms * 1e6));
    }
    if (verdict.again_share >= kLostShare) {
      finding.evidence.push_back(
          fmt::format("{:.1f} % of the packets had to be sent again", 100 * verdict.again_share));
    }
    finding.evidence.emplace_back(
        "from clocks inside each rank and the kernel's figures of their TCP connections");
    if (!is_latency) {
      finding.fix =
          "look at the speed of this link (ethtool, cluster probe), keep other traffic off it; "
          "send less: larger batches, gradient accumulation with no_sync(), bf16_compress_hook";
    }
    report(std::move(finding), finding_topic(verdict));
  }

  static std::string figures_of(const Verdict& verdict) {
    const bool is_latency = verdict.cause == Cause::kLatency;
    const auto figure = [&](double value) {
      return is_latency ? fmt::format("{:.2f} ms", value) : in_rate(value);
    };
    std::string text = is_latency ? "a packet and its answer take " : "its connections carry ";
    if (!is_latency && verdict.ranks.size() != 1) text = "their connections carry ";
    text += (is_latency ? "at least " : "at most ") + figure(verdict.measured);
    if (!verdict.ranks.empty()) {
      text += fmt::format(", those between the other ranks {}", figure(verdict.others));
    }
    return text;
  }

  static std::string finding_topic(const Verdict& verdict) {
    return verdict.cause == Cause::kLatency ? "latency" : "bandwidth";
  }

  Pace pace_;
  Links links_;
  Exchanges exchanges_;
  Verdict last_;
  int looks_ = 0;
  int64_t next_look_ns_ = 0;
  int64_t next_tell_ns_ = 0;
};

}  // namespace

WatchEntry network_bottleneck_watch() {
  return {{"network_bottleneck",
           rules::Severity::kWarning,
           "The network between the ranks holds the job up",
           "Over at least six seconds a quarter of the time passes in exchanges for which all "
           "ranks are there, and the kernel's figures of their connections explain it: round trips "
           "of 1 ms and four times those of the other ranks (2 ms for all ranks), or a rate of a "
           "third of that of the others (1 Gbit/s for all ranks). Which of both, is told by how "
           "the time grows with the size of what is exchanged.",
           "put the ranks nearer to each other (one rack, one availability zone); exchange less "
           "often: larger buckets (bucket_cap_mb), gradient accumulation with no_sync(), fewer "
           "small collectives a step",
           {}},
          &make_watch<NetworkBottleneck>};
}

}  // namespace paramedic::cluster
