#include "cluster/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/json.h"
#include "base/lines.h"
#include "base/path.h"

namespace paramedic::cluster {
namespace {

constexpr size_t kFramesMax = 100;  // of a stack; outer ones are cut
constexpr size_t kReportsMax = 8;   // of one pause; the newest are kept
// What "lately" means: long enough for a process that gets half a core to show that it works.
constexpr int64_t kLatelyNs = 3'000'000'000;
constexpr int64_t kLatelyMinNs = 900'000'000;
// Less than this share of a core is no work: what our own threads and heartbeats take.
constexpr double kIdlePercent = 10;

store::CallSite site_of(const Json& json) {
  return {string_or(json, "file", ""), static_cast<int32_t>(integer_or(json, "line", 0)),
          string_or(json, "function", "")};
}

void read_flight(const Json& json, StallReport& report) {
  for (const auto& [group, told] : json.items()) {
    if (!told.is_object()) continue;
    StallReport::Flight& flight = report.flight[group];
    flight.last_enqueued = integer_or(told, "last_enqueued", -1);
    flight.last_completed = integer_or(told, "last_completed", -1);
    const auto open = told.find("open");
    if (open == told.end() || !open->is_object()) continue;
    // Either the open call itself, or what is open by its number.
    flight.operation = string_or(*open, "operation", "");
  }
}

StallReport report_of(const Json& json, int64_t time_ns) {
  StallReport report;
  report.time_ns = time_ns;
  report.since_ns = integer_or(json, "since_ns", time_ns);
  report.phase = string_or(json, "phase", "");
  report.evaluating = bool_or(json, "evaluating", false);
  report.torch_calls = integer_or(json, "torch_calls_since", 0);
  if (const auto waiting = json.find("waiting"); waiting != json.end() && waiting->is_object()) {
    report.waiting = {string_or(*waiting, "group", ""), integer_or(*waiting, "sequence", -1),
                      string_or(*waiting, "operation", "")};
  }
  if (const auto stack = json.find("stack"); stack != json.end() && stack->is_array()) {
    for (const Json& frame : *stack) {
      if (report.stack.size() < kFramesMax) report.stack.push_back(site_of(frame));
    }
  }
  if (const auto flight = json.find("flight"); flight != json.end() && flight->is_object()) {
    read_flight(*flight, report);
  }
  return report;
}

Exiting exiting_of(const Json& exception, int64_t time_ns) {
  Exiting exiting;
  exiting.time_ns = time_ns;
  if (!exception.is_object()) return exiting;
  exiting.has_exception = true;
  exiting.type = string_or(exception, "type", "");
  exiting.message = string_or(exception, "message", "");
  if (const auto where = exception.find("where"); where != exception.end()) {
    exiting.where = site_of(*where);
  }
  return exiting;
}

}  // namespace

std::string Exiting::in_words() const { return fmt::format("{}: {}", type, first_line(message)); }

void Ranks::take(const store::EventRow& row) {
  constexpr std::array<std::string_view, 4> kKinds{"stalled", "resumed", "exiting", "exception"};
  if (std::find(kKinds.begin(), kKinds.end(), row.kind) == kKinds.end()) return;
  const auto json = parse_json(row.json, "an event");
  if (!json.ok() || !json.value().is_object()) return;
  Rank& rank = ranks_[row.origin.rank];
  const bool is_newest = !rank.is_known || rank.process.ring_id == row.origin.ring_id;
  if (!is_newest) return;
  if (row.kind == "stalled") {
    StallReport report = report_of(json.value(), row.origin.time_ns);
    if (!rank.reports.empty() && rank.reports.back().since_ns != report.since_ns) {
      rank.reports.clear();
    }
    rank.reports.push_back(std::move(report));
    if (rank.reports.size() > kReportsMax) rank.reports.pop_front();
  } else if (row.kind == "resumed") {
    rank.reports.clear();
  } else if (row.kind == "exiting") {
    const auto exception = json.value().find("exception");
    rank.exiting = exiting_of(exception == json.value().end() ? Json(nullptr) : *exception,
                              row.origin.time_ns);
  } else {
    rank.last_raised = exiting_of(json.value(), row.origin.time_ns);
  }
}

std::vector<int32_t> Ranks::look(const Moment& moment) {
  std::vector<int32_t> replaced;
  for (const RankProcess& process : moment.processes) {
    const auto known = ranks_.find(process.rank);
    if (known != ranks_.end() && known->second.is_known &&
        known->second.process.ring_id != process.ring_id) {
      ranks_.erase(known);
      replaced.push_back(process.rank);
    }
    Rank& rank = ranks_[process.rank];
    rank.process = process;
    rank.is_known = true;
    if (!process.alive) {
      if (rank.gone_since_ns == 0) rank.gone_since_ns = moment.time_ns;
      continue;
    }
    rank.looks.push_back({moment.time_ns, process.tree_cpu_ms, process.io_bytes});
    while (moment.time_ns - rank.looks.front().time_ns > kLatelyNs) rank.looks.pop_front();
    const double cpu_percent = rank.cpu_percent();
    if (cpu_percent < 0 || cpu_percent >= kIdlePercent) {
      rank.idle_since_ns = 0;
    } else if (rank.idle_since_ns == 0) {
      rank.idle_since_ns = rank.looks.front().time_ns;
    }
  }
  return replaced;
}

const Rank* Ranks::find(int32_t rank) const {
  const auto known = ranks_.find(rank);
  return known == ranks_.end() ? nullptr : &known->second;
}

double Rank::cpu_percent() const {
  if (looks.size() < 2) return -1;
  const int64_t past_ns = looks.back().time_ns - looks.front().time_ns;
  if (past_ns < kLatelyMinNs || looks.back().cpu_ms < looks.front().cpu_ms) return -1;
  return static_cast<double>(looks.back().cpu_ms - looks.front().cpu_ms) * 1e8 /
         static_cast<double>(past_ns);
}

uint64_t Rank::io_bytes() const {
  if (looks.size() < 2 || looks.back().io_bytes < looks.front().io_bytes) return 0;
  return looks.back().io_bytes - looks.front().io_bytes;
}

bool is_own_file(const std::string& file) {
  constexpr std::array<std::string_view, 5> kOthers{
      "/site-packages/", "/dist-packages/", "/lib/python", "/lib64/python", "/python/paramedic/"};
  if (file.empty() || file.front() == '<') return false;
  return std::none_of(kOthers.begin(), kOthers.end(),
                      [&](std::string_view part) { return file.find(part) != std::string::npos; });
}

std::optional<store::CallSite> own_line(const std::vector<store::CallSite>& stack) {
  for (const store::CallSite& frame : stack) {
    if (is_own_file(frame.file) && frame.line > 0) return frame;
  }
  return std::nullopt;
}

bool is_inside(const std::vector<store::CallSite>& stack, const std::string& function) {
  for (const store::CallSite& frame : stack) {
    if (is_own_file(frame.file)) return false;
    if (frame.function == function) return true;
  }
  return false;
}

std::string place(const store::CallSite& site) {
  if (site.line <= 0) return "a line that is not known";
  return fmt::format("{}:{}", base_name(site.file), site.line);
}

}  // namespace paramedic::cluster
