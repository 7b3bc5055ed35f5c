#include "cli/ranks_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "cluster/hang.h"
#include "cluster/ranks.h"
#include "cluster/standing.h"

namespace paramedic::cli {
namespace {

constexpr double kMsOfNs = 1e-6;
constexpr int64_t kWaitMinNs = 2'000'000'000;
// Of a cell, that what is known of it must cover.
constexpr double kShareMin = 0.3;
constexpr size_t kBeatsMax = 4'096;  // of one event
constexpr size_t kLinesMax = 64;     // of one event
constexpr size_t kWaitsMax = 16;

struct Span {
  int64_t from_ns = 0;
  int64_t to_ns = 0;
};

// The time of one rank, cell by cell.
class RankTime {
 public:
  void add(Act act, Span span, const Span& run) {
    spread(told_, static_cast<size_t>(act), span, run);
  }
  // In calls that were seen from outside: where nothing better is known.
  void add_inside(Span span, const Span& run) { spread(inside_, 0, span, run); }
  // In stalls, which say more than anything else.
  void add_stall(Act act, Span span, const Span& run) {
    spread(stall_, static_cast<size_t>(act), span, run);
  }
  void heard(int64_t time_ns) {
    if (first_ns_ == 0 || time_ns < first_ns_) first_ns_ = time_ns;
    last_ns_ = std::max(last_ns_, time_ns);
  }

  [[nodiscard]] RankStrip strip(int32_t rank, const Span& run) const {
    RankStrip strip;
    strip.first = strip.last = rank;
    const double cell_ms = static_cast<double>(run.to_ns - run.from_ns) * kMsOfNs / kStripCells;
    for (size_t cell = 0; cell < kStripCells; ++cell) fill(cell, cell_ms, run, strip);
    return strip;
  }

 private:
  using Cells = std::map<size_t, std::array<float, kActs>>;

  static void spread(Cells& cells, size_t act, Span span, const Span& run) {
    span.from_ns = std::max(span.from_ns, run.from_ns);
    span.to_ns = std::min(span.to_ns, run.to_ns);
    if (span.to_ns <= span.from_ns) return;
    const double cell_ns = static_cast<double>(run.to_ns - run.from_ns) / kStripCells;
    const auto from = static_cast<double>(span.from_ns - run.from_ns);
    const auto to = static_cast<double>(span.to_ns - run.from_ns);
    const auto last = std::min(kStripCells - 1, static_cast<size_t>(to / cell_ns));
    for (auto cell = static_cast<size_t>(from / cell_ns); cell <= last; ++cell) {
      const double begin = std::max(from, static_cast<double>(cell) * cell_ns);
      const double end = std::min(to, static_cast<double>(cell + 1) * cell_ns);
      if (end > begin) cells[cell][act] += static_cast<float>((end - begin) * kMsOfNs);
    }
  }

  // What most of the cell is, and how much of it is known.
  static std::pair<Act, double> most(const Cells& cells, size_t cell) {
    const auto known = cells.find(cell);
    if (known == cells.end()) return {Act::kNone, 0};
    const auto& ms = known->second;
    const auto largest = std::max_element(ms.begin(), ms.end());
    return {static_cast<Act>(largest - ms.begin()), std::accumulate(ms.begin(), ms.end(), 0.0)};
  }

  void fill(size_t cell, double cell_ms, const Span& run, RankStrip& strip) const {
    const auto [stalled, stalled_ms] = most(stall_, cell);
    const auto [told, told_ms] = most(told_, cell);
    Act& act = strip.cells[cell];
    if (stalled_ms >= cell_ms / 2) {
      act = stalled;
    } else if (told_ms >= cell_ms * kShareMin) {
      act = told;
      for (size_t i = 0; i < kActs; ++i) {
        strip.ms[i] += cell_ms * static_cast<double>(told_.at(cell)[i]) / told_ms;
      }
      return;
    } else if (most(inside_, cell).second >= cell_ms / 2) {
      act = Act::kWaits;
    } else {
      const double middle_ms = (static_cast<double>(cell) + 0.5) * cell_ms;
      const int64_t middle_ns = run.from_ns + static_cast<int64_t>(middle_ms / kMsOfNs);
      const bool is_there = middle_ns >= first_ns_ && middle_ns <= last_ns_;
      act = is_there ? Act::kWorks : Act::kNone;
    }
    strip.ms[static_cast<size_t>(act)] += cell_ms;
  }

  Cells told_;
  Cells inside_;
  Cells stall_;
  int64_t first_ns_ = 0;
  int64_t last_ns_ = 0;
};

Act act_of_kind(const std::string& kind) {
  if (kind == "data") return Act::kData;
  if (kind == "validation" || kind == "checkpoint") return Act::kEvaluates;
  return Act::kWorks;
}

// Where a rank stood when it was last heard of.
struct Standing {
  std::string group;
  int64_t number = -1;  // of the call; -1: it is in none
  std::string operation;
  store::CallSite where;
  int64_t since_ns = 0;
  bool from_flight = false;
};

class Gatherer {
 public:
  explicit Gatherer(const Span& run) : run_(run) {}

  void take(const store::EventRow& row) {
    if (row.origin.rank < 0 || !has_room(row.origin.rank)) return;
    RankTime& time = times_[row.origin.rank];
    time.heard(row.origin.time_ns);
    if (row.kind == "pace") return take_pace(row, time);
    ranks_.take(row);
    const cluster::Rank* rank = ranks_.find(row.origin.rank);
    if (row.kind == "stalled" && rank != nullptr && rank->stalled() != nullptr) {
      const cluster::StallReport& report = *rank->stalled();
      const auto stall = stalls_.find(row.origin.rank);
      const bool is_another = stall != stalls_.end() && stall->second.since_ns != report.since_ns;
      if (is_another) close_stall(row.origin.rank, report.since_ns);
      stalls_[row.origin.rank] = {report.since_ns, act_of(*rank)};
    } else if (row.kind == "resumed" || row.kind == "exiting") {
      close_stall(row.origin.rank, row.origin.time_ns);
    }
  }

  void take(const store::CollectiveRow& row) {
    if (row.origin.rank < 0 || !has_room(row.origin.rank)) return;
    RankTime& time = times_[row.origin.rank];
    time.heard(row.left_ns == 0 ? row.entered_ns : row.left_ns);
    auto& last = last_numbers_[row.group->name][row.origin.rank];
    last = std::max(last, row.sequence);
    if (!row.group->ranks.empty()) members_[row.group->name] = row.group->ranks;
    labels_[row.group->name] = row.group->description;
    if (row.asynchronous) return;
    time.add_inside({row.entered_ns, row.left_ns == 0 ? run_.to_ns : row.left_ns}, run_);
    if (row.left_ns != 0) return;
    Standing& standing = standings_[row.origin.rank];
    if (standing.since_ns > row.entered_ns) return;
    standing = {row.group->name,
                row.sequence,
                row.operation,
                row.where == nullptr ? store::CallSite{} : *row.where,
                std::clamp(row.entered_ns, run_.from_ns, run_.to_ns),
                false};
  }

  RanksView finish() {
    RanksView view;
    view.seconds = static_cast<double>(run_.to_ns - run_.from_ns) / 1e9;
    for (const auto& [rank, stall] : std::map<int32_t, Stall>(stalls_)) {
      if (!standings_.contains(rank)) stand_as_told(rank, stall);
      close_stall(rank, run_.to_ns);
    }
    for (const auto& [rank, time] : times_) view.strips.push_back(time.strip(rank, run_));
    add_waits(view);
    return view;
  }

 private:
  struct Stall {
    int64_t since_ns = 0;
    Act act = Act::kNone;
  };

  [[nodiscard]] bool has_room(int32_t rank) const {
    return times_.contains(rank) || times_.size() < kRanksViewMax;
  }

  static bool has_open(const cluster::StallReport::Flight& flight) {
    return flight.last_enqueued > flight.last_completed;
  }

  static Act act_of(const cluster::Rank& rank) {
    const cluster::StallReport& report = *rank.stalled();
    // Also where ranks meet before their first collective.
    const bool is_in_distributed =
        !report.stack.empty() &&
        report.stack.front().file.find("/torch/distributed/") != std::string::npos;
    if (report.waiting || is_in_distributed) return Act::kWaits;
    if (report.evaluating) return Act::kEvaluates;
    if (report.phase == "compile") return Act::kWorks;  // the import of torch's compiler as well
    if (const Act act = act_of_kind(report.phase); act != Act::kWorks) return act;
    const bool any_open = std::any_of(report.flight.begin(), report.flight.end(),
                                      [](const auto& one) { return has_open(one.second); });
    if (any_open && cluster::stands_in_framework(report)) return Act::kWaits;
    const auto& reports = rank.reports;
    const int64_t before = reports.size() > 1 ? reports[reports.size() - 2].torch_calls : 0;
    return report.torch_calls > before ? Act::kWorks : Act::kStandsStill;
  }

  void close_stall(int32_t rank, int64_t end_ns) {
    const auto stall = stalls_.find(rank);
    if (stall == stalls_.end()) return;
    times_[rank].add_stall(stall->second.act, {stall->second.since_ns, end_ns}, run_);
    stalls_.erase(stall);
  }

  void take_pace(const store::EventRow& row, RankTime& time) {
    const auto json = parse_json(row.json, "event pace");
    if (!json.ok() || !json->is_object()) return;
    const auto self = json->find("self_us");
    const auto wait = json->find("wait_us");
    if (self == json->end() || wait == json->end() || !self->is_array() || !wait->is_array()) {
      return;
    }
    const double wall_ms = std::clamp(number_or(*json, "wall_ms", 0), 0.0, 1e9);
    const double looks = number_or(*json, "looks", 0);
    std::array<double, kActs> share{};  // of the time that is the rank's own
    double own_ms = 0;
    const size_t beats = std::min({self->size(), wait->size(), kBeatsMax});
    const auto ms_at = [](const Json& list, size_t i) {
      return list[i].is_number() ? std::clamp(list[i].get<double>() / 1e3, 0.0, 1e9) : 0.0;
    };
    for (size_t i = 0; i < beats; ++i) own_ms += ms_at(*self, i);
    const auto lines = json->find("lines");
    if (lines != json->end() && lines->is_array() && looks > 0 && own_ms > 0) {
      for (size_t i = 0; i < std::min(lines->size(), kLinesMax); ++i) {
        const Act act = act_of_kind(string_or((*lines)[i], "kind", ""));
        const double ms = number_or((*lines)[i], "looks", 0) * wall_ms / looks;
        share[static_cast<size_t>(act)] += std::clamp(ms / own_ms, 0.0, 1.0);
      }
    }
    const double others =
        share[static_cast<size_t>(Act::kData)] + share[static_cast<size_t>(Act::kEvaluates)];
    for (double& each : share) each = others > 1 ? each / others : each;
    share[static_cast<size_t>(Act::kWorks)] = std::max(0.0, 1 - others);
    double at_ms = static_cast<double>(row.origin.time_ns - run_.from_ns) * kMsOfNs - wall_ms;
    const auto add = [&](Act act, double ms) {
      const Span span{run_.from_ns + static_cast<int64_t>(at_ms / kMsOfNs),
                      run_.from_ns + static_cast<int64_t>((at_ms + ms) / kMsOfNs)};
      if (ms > 0) time.add(act, span, run_);
      at_ms += ms;
    };
    for (size_t i = 0; i < beats; ++i) {
      for (const Act act : {Act::kData, Act::kWorks, Act::kEvaluates}) {
        add(act, ms_at(*self, i) * share[static_cast<size_t>(act)]);
      }
      add(Act::kWaits, ms_at(*wait, i));
    }
  }

  // A rank that has stalled to the end and is in no call that was seen from outside.
  void stand_as_told(int32_t rank, const Stall& stall) {
    const cluster::Rank* state = ranks_.find(rank);
    if (state == nullptr || state->stalled() == nullptr) return;
    const cluster::StallReport& report = *state->stalled();
    Standing standing;
    standing.since_ns = std::clamp(stall.since_ns, run_.from_ns, run_.to_ns);
    standing.where = cluster::own_line(report.stack).value_or(store::CallSite{});
    if (report.waiting) {
      standing.group = report.waiting->group;
      standing.number = report.waiting->sequence;
      standing.operation = report.waiting->operation;
    } else if (stall.act == Act::kWaits) {
      for (const auto& [name, flight] : report.flight) {
        if (!has_open(flight)) continue;
        standing.group = name;
        standing.number = flight.last_enqueued;
        standing.operation = flight.operation;
        standing.from_flight = true;
      }
    }
    standings_[rank] = std::move(standing);
  }

  // Whether `rank` has entered the call, or passed it.
  [[nodiscard]] bool has_come(int32_t rank, const Standing& call) const {
    const auto stands = standings_.find(rank);
    if (stands != standings_.end() && stands->second.group == call.group &&
        stands->second.number >= call.number && stands->second.from_flight == call.from_flight) {
      return true;
    }
    if (call.from_flight) {
      const cluster::Rank* state = ranks_.find(rank);
      if (state == nullptr || state->stalled() == nullptr) return false;
      const auto& flights = state->stalled()->flight;
      const auto flight = flights.find(call.group);
      return flight != flights.end() && flight->second.last_enqueued >= call.number;
    }
    const auto group = last_numbers_.find(call.group);
    if (group == last_numbers_.end()) return false;
    const auto last = group->second.find(rank);
    return last != group->second.end() && last->second >= call.number;
  }

  void add_waits(RanksView& view) const {
    std::map<std::pair<std::string, int64_t>, RankWait> calls;
    for (const auto& [rank, standing] : standings_) {
      if (standing.number < 0 || run_.to_ns - standing.since_ns < kWaitMinNs) continue;
      RankWait& wait = calls[{standing.group, standing.number}];
      wait.waiters.push_back(rank);
      if (!wait.in.empty()) continue;
      const auto label = labels_.find(standing.group);
      const bool is_named = label != labels_.end() && !label->second.empty();
      wait.in = fmt::format("{} of group {}",
                            standing.operation.empty() ? "a collective" : standing.operation,
                            is_named ? label->second : standing.group);
      if (standing.where.line > 0) wait.in += " at " + cluster::place(standing.where);
      for (const int32_t member : members_of(standing.group)) {
        if (!has_come(member, standing)) wait.missing.push_back(member);
      }
      if (!wait.missing.empty()) wait.they = words_for(wait.missing.front());
    }
    for (auto& [key, wait] : calls) view.waits.push_back(std::move(wait));
    std::stable_sort(
        view.waits.begin(), view.waits.end(),
        [](const RankWait& a, const RankWait& b) { return a.waiters.size() > b.waiters.size(); });
    if (view.waits.size() > kWaitsMax) view.waits.resize(kWaitsMax);
  }

  [[nodiscard]] std::vector<int32_t> members_of(const std::string& group) const {
    const auto told = members_.find(group);
    if (told != members_.end()) return told->second.list();
    std::vector<int32_t> all;
    for (const auto& [rank, time] : times_) all.push_back(rank);
    return all;
  }

  [[nodiscard]] std::string words_for(int32_t rank) const {
    if (!times_.contains(rank)) return "was never heard of";
    const cluster::Rank* state = ranks_.find(rank);
    if (state != nullptr && state->exiting) {
      return state->exiting->has_exception ? "had left with " + state->exiting->type : "had left";
    }
    const auto stands = standings_.find(rank);
    if (stands == standings_.end()) return "was not in a call";
    if (stands->second.number >= 0) return "waited in another call";
    if (stands->second.where.line <= 0) return "stood at a line that is not known";
    return fmt::format("stood at {} in {}", cluster::place(stands->second.where),
                       stands->second.where.function);
  }

  Span run_;
  cluster::Ranks ranks_;
  std::map<int32_t, RankTime> times_;
  std::map<int32_t, Stall> stalls_;                                 // that go on
  std::map<int32_t, Standing> standings_;                           // at the end
  std::map<std::string, std::map<int32_t, int64_t>> last_numbers_;  // by group and rank
  std::map<std::string, store::Members> members_;
  std::map<std::string, std::string> labels_;
};

}  // namespace

Result<RanksView> build_ranks_view(store::RunReader& reader,
                                   const std::vector<rules::Finding>& findings, double now) {
  const store::RunInfo& info = reader.info();
  const Span run{
      static_cast<int64_t>(info.started * 1e9),
      static_cast<int64_t>(std::max(info.ended.value_or(now), info.started + 1e-3) * 1e9)};
  Gatherer gatherer(run);
  PARAMEDIC_TRY(reader.read_events([&](const store::EventRow& row) {
    gatherer.take(row);
    return true;
  }));
  PARAMEDIC_TRY(reader.read_collectives([&](const store::CollectiveRow& row) {
    gatherer.take(row);
    return true;
  }));
  RanksView view = gatherer.finish();
  view.verdict = ranks_verdict(view, findings);
  return view;
}

}  // namespace paramedic::cli
