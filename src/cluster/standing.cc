#include "cluster/standing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

namespace paramedic::cluster {
namespace {

// Less than this in a few seconds is talk, not work.
constexpr uint64_t kIoBytesMin = 256 * 1024;
// A loop that polls stands at its sleep, and now and then at what it asks for.
constexpr size_t kIdleLinesMax = 2;
// One that computes and gets nowhere shows the few lines of its body.
constexpr size_t kBusyLinesMax = 5;
constexpr size_t kReportsForStill = 2;

std::optional<Waiter> from_rows(const Job& job, int32_t number_of_rank) {
  std::optional<Waiter> waiter;
  for (const auto& [key, group] : job.groups().all()) {
    const auto track = group.tracks.find(number_of_rank);
    if (track == group.tracks.end()) continue;
    const Call* call = track->second.inside();
    if (call == nullptr || (waiter && waiter->since_ns > call->entered_ns)) continue;
    const Signature& signature = job.groups().signature(call->signature);
    waiter = Waiter{};
    waiter->rank = number_of_rank;
    waiter->group = group.name;
    waiter->number = track->second.entered() - 1;
    waiter->operation = describe(signature);
    waiter->where = *call->where;
    waiter->since_ns = call->entered_ns;
    waiter->is_transfer = is_transfer(signature.operation);
    waiter->peer = signature.peer;
    if (waiter->is_transfer) waiter->number = call->told_sequence;
  }
  return waiter;
}

// What was started asynchronously keeps nobody until it is waited for: the rank itself tells.
std::optional<Waiter> from_report(const Job& job, const Rank& rank, const StallReport& report) {
  const int32_t number = rank.process.rank;
  const Group* group = job.groups().find(report.waiting->group, number);
  if (group == nullptr) return std::nullopt;
  const auto track = group->tracks.find(number);
  if (track == group->tracks.end()) return std::nullopt;
  Waiter waiter;
  const Call* call = nullptr;
  const auto transfer = track->second.transfers.find(report.waiting->sequence);
  if (transfer != track->second.transfers.end()) {
    call = &transfer->second;
    waiter.is_transfer = true;
    waiter.number = call->told_sequence;
  }
  for (int64_t i = track->second.entered() - 1; call == nullptr && i >= track->second.first; --i) {
    if (track->second.at(i)->told_sequence != report.waiting->sequence) continue;
    call = track->second.at(i);
    waiter.number = i;
  }
  if (call == nullptr) return std::nullopt;
  const Signature& signature = job.groups().signature(call->signature);
  waiter.rank = number;
  waiter.group = group->name;
  waiter.operation = describe(signature);
  waiter.peer = signature.peer;
  waiter.where = own_line(report.stack).value_or(*call->where);
  waiter.since_ns = report.since_ns;
  return waiter;
}

std::optional<Waiter> from_flight(const Rank& rank, const StallReport& report) {
  if (!stands_in_framework(report)) return std::nullopt;
  for (const auto& [name, flight] : report.flight) {
    if (!flight.is_open()) continue;
    Waiter waiter;
    waiter.rank = rank.process.rank;
    waiter.group = name;
    waiter.number = flight.last_enqueued;
    waiter.operation = flight.operation.empty() ? "a collective" : flight.operation;
    waiter.where = own_line(report.stack).value_or(store::CallSite{});
    waiter.since_ns = report.since_ns;
    waiter.from_flight = true;
    return waiter;
  }
  return std::nullopt;
}

bool calls_the_framework(const Rank& rank) {
  const auto& reports = rank.reports;
  if (reports.size() == 1) return reports.back().torch_calls > 0;
  return reports.back().torch_calls > reports[reports.size() - 2].torch_calls;
}

// Whether all its stacks of this pause stand in one function, on at most `lines_max` lines of it.
bool is_still(const Rank& rank, size_t lines_max) {
  if (rank.reports.size() < kReportsForStill) return false;
  std::set<std::pair<std::string, std::string>> functions;
  std::set<int32_t> lines;
  for (const StallReport& report : rank.reports) {
    const auto line = own_line(report.stack);
    if (!line) continue;
    functions.emplace(line->file, line->function);
    lines.insert(line->line);
  }
  return functions.size() <= 1 && lines.size() <= lines_max;
}

bool may_be_long(const StallReport& report) {
  constexpr std::array<std::string_view, 3> kLong{"validation", "checkpoint", "compile"};
  return report.evaluating || std::find(kLong.begin(), kLong.end(), report.phase) != kLong.end();
}

// What the kernel function and the frames below the own line say, in words.
std::string idle_words(const Rank& rank, const StallReport* report) {
  const std::string& wait = rank.process.wait;
  if (wait.find("nanosleep") != std::string::npos) return "sleeps";
  const bool locks =
      report != nullptr && !report->stack.empty() &&
      (report->stack.front().function == "acquire" || report->stack.front().function == "wait");
  if (wait.starts_with("futex") || locks) return "waits for a lock";
  if (wait.find("pipe") != std::string::npos) return "waits for a pipe";
  if (wait.starts_with("do_wait")) return "waits for a process";
  if (wait.find("tty") != std::string::npos) return "waits for input";
  if (wait.find("sk") == 0 || wait.find("inet") != std::string::npos) return "waits for a socket";
  return "waits";
}

Suspect gone(const Rank& rank) {
  Suspect suspect;
  suspect.rank = rank.process.rank;
  suspect.doing = Doing::kGone;
  suspect.what = "has left";
  suspect.since_ns = rank.gone_since_ns;
  if (!rank.exiting) return suspect;
  suspect.since_ns = rank.exiting->time_ns;
  suspect.where = rank.exiting->where;
  if (rank.exiting->has_exception) suspect.what = "has left with " + rank.exiting->type;
  return suspect;
}

}  // namespace

bool stands_in_framework(const StallReport& report) {
  if (report.stack.empty()) return true;
  const std::string& file = report.stack.front().file;
  // What it loads data with waits for workers.
  return file.find("/torch/") != std::string::npos &&
         file.find("/torch/utils/data/") == std::string::npos;
}

std::optional<Waiter> waiter_of(const Job& job, int32_t rank) {
  const Rank* state = job.ranks().find(rank);
  if (state == nullptr || state->is_gone() || state->exiting) return std::nullopt;
  if (state->process.state == 'T' || state->process.state == 't') return std::nullopt;
  if (auto waiter = from_rows(job, rank)) return waiter;
  const StallReport* report = state->stalled();
  if (report == nullptr) return std::nullopt;
  if (report->waiting) {
    if (auto waiter = from_report(job, *state, *report)) return waiter;
  }
  return from_flight(*state, *report);
}

Suspect suspect_of(const Job& job, int32_t rank) {
  Suspect suspect;
  suspect.rank = rank;
  suspect.what = "does something that is not known";
  const Rank* state = job.ranks().find(rank);
  if (state == nullptr || !state->is_known) return suspect;
  if (state->is_gone() || state->exiting) return gone(*state);
  const StallReport* report = state->stalled();
  if (report != nullptr) suspect.where = own_line(report->stack).value_or(store::CallSite{});
  if (report != nullptr) suspect.since_ns = report->since_ns;
  if (state->process.state == 'T' || state->process.state == 't') {
    suspect.doing = Doing::kStopped;
    suspect.what = "is stopped";
    return suspect;
  }
  const bool is_idle = state->idle_since_ns != 0;
  if (report == nullptr) {
    if (is_idle) suspect.what = idle_words(*state, nullptr);
    return suspect;
  }
  const bool moves = calls_the_framework(*state) || state->io_bytes() >= kIoBytesMin;
  const bool stands_still = is_still(*state, is_idle ? kIdleLinesMax : kBusyLinesMax);
  if (is_idle && !moves && stands_still) {
    suspect.doing = Doing::kIdle;
    suspect.what = idle_words(*state, report);
    suspect.since_ns = std::max(report->since_ns, state->idle_since_ns);
  } else if (!is_idle && !moves && stands_still && !may_be_long(*report)) {
    suspect.doing = Doing::kBusy;
    suspect.what = "computes without coming forward";
  } else {
    suspect.doing = may_be_long(*report) ? Doing::kWorking : Doing::kMoving;
    suspect.what = report->evaluating ? "evaluates" : "works";
  }
  return suspect;
}

}  // namespace paramedic::cluster
