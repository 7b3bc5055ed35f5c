#include "cluster/pace.h"

#include <algorithm>

namespace paramedic::cluster {
namespace {

constexpr size_t kRanksMax = 100'000;
constexpr size_t kBeatsMax = 8192;  // kept of a rank
constexpr size_t kReportsMax = 64;  // kept of a rank
constexpr size_t kToldMax = 4096;   // beats of one event
constexpr size_t kLinesMax = 64;    // of one event
constexpr int64_t kFirstBeats = 5;  // of a job are not like the others
constexpr int64_t kBeatNumberMax = int64_t{1} << 50;
constexpr double kBeatMsMax = 1e9;

// What cannot be a time is cut to what may be one.
float in_ms(const Json& micros) {
  const double ms = micros.is_number() ? micros.get<double>() / 1000 : 0;
  return static_cast<float>(std::clamp(ms, 0.0, kBeatMsMax));
}

std::optional<rules::Where> where_in(const Json& json) {
  std::string file = string_or(json, "file", "");
  const auto line = static_cast<int32_t>(integer_or(json, "line", 0));
  if (file.empty() || line <= 0) return std::nullopt;
  return rules::Where{std::move(file), line, string_or(json, "function", "")};
}

// The lines of a report; looks that were no waiting share its time evenly.
std::vector<PaceLine> lines_in(const Json& json, double ms_a_look) {
  std::vector<PaceLine> lines;
  const auto add = [&](const char* list, const auto& time_of) {
    const auto found = json.find(list);
    if (found == json.end() || !found->is_array()) return;
    for (const Json& told : *found) {
      if (lines.size() >= kLinesMax) return;
      PaceLine line;
      line.kind = string_or(told, "kind", "host");
      line.where = where_in(told).value_or(rules::Where{});
      time_of(told, line);
      lines.push_back(std::move(line));
    }
  };
  add("lines", [&](const Json& told, PaceLine& line) {
    const double looks = number_or(told, "looks", 0);
    line.ms = looks * ms_a_look;
    line.still = looks > 0 ? number_or(told, "still", 0) / looks : 0;
  });
  add("gc_lines", [&](const Json& told, PaceLine& line) { line.ms = number_or(told, "ms", 0); });
  return lines;
}

bool is_same(const PaceLine& one, const PaceLine& other) {
  return one.where.line == other.where.line && one.kind == other.kind &&
         one.where.file == other.where.file && one.where.function == other.where.function;
}

}  // namespace

bool Pace::on_event(const store::EventRow& row) {
  const bool begins = row.kind == "pace_begins";
  if (!begins && row.kind != "pace") return false;
  const Result<Json> parsed = parse_json(row.json, "event pace");
  if (!parsed.ok() || !parsed->is_object()) return true;
  if (begins) {
    begin(row, *parsed);
  } else {
    add(row, *parsed);
  }
  return true;
}

void Pace::begin(const store::EventRow& row, const Json& json) {
  const int32_t number = row.origin.rank;
  if (number < 0 || (ranks_.size() >= kRanksMax && !ranks_.contains(number))) return;
  // A rank that begins anew counts its beats from 0: those of the others begin anew with it.
  if (ranks_.contains(number)) ranks_.clear();
  Rank& rank = ranks_[number];
  rank.ring_id = row.origin.ring_id;
  rank.standing.pid = row.origin.pid;
  rank.standing.threads = static_cast<int>(integer_or(json, "threads", 1));
  rank.standing.cores = static_cast<int>(integer_or(json, "cores", 0));
  rank.standing.nice = static_cast<int>(integer_or(json, "nice", 0));
  if (const auto set = json.find("threads_set"); set != json.end()) {
    rank.standing.threads_set = where_in(*set);
  }
  const int64_t here = integer_or(json, "ranks_here", 0);
  if (here > 0) ranks_here_ = static_cast<size_t>(here);
}

void Pace::add(const store::EventRow& row, const Json& json) {
  const auto known = ranks_.find(row.origin.rank);
  if (known == ranks_.end() || known->second.ring_id != row.origin.ring_id) return;
  Rank& rank = known->second;
  const auto self = json.find("self_us");
  const auto wait = json.find("wait_us");
  if (self == json.end() || wait == json.end() || !self->is_array() || !wait->is_array()) return;
  const size_t count = std::min({self->size(), wait->size(), kToldMax});
  Report report;
  report.first = integer_or(json, "first", -1);
  report.beats = static_cast<int64_t>(count);
  if (report.first < 0 || report.first > kBeatNumberMax) return;
  // Beats in between were lost with a ring that was full: what came before is of no use.
  const int64_t end = rank.first + static_cast<int64_t>(rank.beats.size());
  if (report.first < end || report.first > end) {
    rank.beats.clear();
    rank.reports.clear();
    rank.first = report.first;
  }
  for (size_t i = 0; i < count; ++i) {
    rank.beats.emplace_back(in_ms((*self)[i]), in_ms((*wait)[i]));
  }
  while (rank.beats.size() > kBeatsMax) {
    rank.beats.pop_front();
    ++rank.first;
  }
  report.step = row.origin.step;
  report.wall_ms = number_or(json, "wall_ms", 0);
  report.cpu_ms = number_or(json, "cpu_ms", 0);
  report.backward_cpu_ms = number_or(json, "backward_cpu_ms", 0);
  report.delay_ms = number_or(json, "delay_ms", 0);
  report.gc_ms = number_or(json, "gc_ms", 0);
  const double looks = number_or(json, "looks", 0);
  report.lines = lines_in(json, looks > 0 ? report.wall_ms / looks : 0);
  rank.reports.push_back(std::move(report));
  if (rank.reports.size() > kReportsMax) rank.reports.pop_front();
}

std::pair<int64_t, int64_t> Pace::complete() const {
  if (ranks_.size() < 2 || ranks_.size() < ranks_here_) return {0, 0};
  int64_t first = kFirstBeats;
  int64_t end = INT64_MAX;
  for (const auto& [number, rank] : ranks_) {
    first = std::max(first, rank.first);
    end = std::min(end, rank.first + static_cast<int64_t>(rank.beats.size()));
  }
  return {first, std::max(first, end)};
}

PaceSpan Pace::newest(double ms) const {
  const auto [oldest, end] = complete();
  PaceSpan span;
  // Of a beat that is common to all, each rank knows the length; the first one's is taken.
  int64_t first = end;
  while (first > oldest && span.wall_ms < ms) {
    --first;
    const Rank& rank = ranks_.begin()->second;
    const auto& [self, wait] = rank.beats[static_cast<size_t>(first - rank.first)];
    span.wall_ms += static_cast<double>(self) + static_cast<double>(wait);
  }
  if (first == end) return span;
  span.first = first;
  span.beats = static_cast<size_t>(end - first);
  for (const auto& [number, rank] : ranks_) span.ranks.push_back(cut(number, rank, first, end));
  for (const Report& report : ranks_.begin()->second.reports) {
    if (report.first + report.beats <= first || report.first >= end) continue;
    if (span.first_step < 0) span.first_step = std::max<int64_t>(0, report.step - report.beats);
    span.last_step = report.step;
  }
  return span;
}

RankPace Pace::cut(int32_t number, const Rank& rank, int64_t first, int64_t end) {
  RankPace pace;
  pace.rank = number;
  for (int64_t beat = first; beat < end; ++beat) {
    const auto& [self, wait] = rank.beats[static_cast<size_t>(beat - rank.first)];
    pace.self_ms.push_back(static_cast<double>(self));
    pace.wait_ms.push_back(static_cast<double>(wait));
    pace.self_sum += static_cast<double>(self);
    pace.wait_sum += static_cast<double>(wait);
  }
  add_lines(rank, first, end, pace);
  return pace;
}

// Reports do not begin and end with the span: what they tell is spread evenly over their beats.
void Pace::add_lines(const Rank& rank, int64_t first, int64_t end, RankPace& pace) {
  double beats = 0;
  for (const Report& report : rank.reports) {
    if (report.first + report.beats <= first || report.first >= end) continue;
    beats += static_cast<double>(report.beats);
    const double inside = report.cpu_ms > 0 ? report.backward_cpu_ms / report.cpu_ms : 0;
    pace.delay_beside += report.delay_ms * std::clamp(inside, 0.0, 1.0);
    pace.delay_within += report.delay_ms * (1 - std::clamp(inside, 0.0, 1.0));
    pace.cpu_sum += report.cpu_ms;
    pace.gc_sum += report.gc_ms;
    for (const PaceLine& line : report.lines) {
      const auto known = std::find_if(pace.lines.begin(), pace.lines.end(),
                                      [&](const PaceLine& other) { return is_same(line, other); });
      if (known == pace.lines.end()) {
        pace.lines.push_back(line);
        continue;
      }
      const double ms = known->ms + line.ms;
      if (ms > 0) known->still = (known->still * known->ms + line.still * line.ms) / ms;
      known->ms = ms;
    }
  }
  if (beats <= 0) return;
  for (PaceLine& line : pace.lines) line.ms /= beats;
  const double share = static_cast<double>(end - first) / beats;
  for (double* sum : {&pace.delay_within, &pace.delay_beside, &pace.cpu_sum, &pace.gc_sum}) {
    *sum *= share;
  }
}

std::map<int32_t, PaceStanding> Pace::standings() const {
  std::map<int32_t, PaceStanding> standings;
  for (const auto& [number, rank] : ranks_) standings[number] = rank.standing;
  return standings;
}

}  // namespace paramedic::cluster
