#include "cluster/closures.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/json.h"
#include "base/median.h"
#include "cluster/hang.h"

namespace paramedic::cluster {
namespace {

constexpr size_t kWorkersMax = 10'000;
constexpr int64_t kSpanNs = 12'000'000'000;  // looked at
constexpr int64_t kSpanMinNs = 5'000'000'000;
constexpr double kFunctionsMin = 10;  // of each worker, in the span
// Nobody waits for a slow worker of parameter servers: only much slower is worth a word.
constexpr double kSlowdownMin = 2;
constexpr double kExcessMsMin = 10;
// A function is traced and placed when it is first run.
constexpr int64_t kStuckNs = 60'000'000'000;
constexpr int64_t kStoppedNs = 4'000'000'000;

}  // namespace

bool Closures::take(const store::EventRow& row) {
  if (row.kind != "closures") return false;
  const auto json = parse_json(row.json, "event closures");
  if (!json.ok() || !json->is_object()) return true;
  coordinator_ = row.origin.rank;
  waits_since_ns_ = integer_or(*json, "waits_since_ns", 0);
  const auto workers = json->find("workers");
  if (workers == json->end() || !workers->is_array()) return true;
  for (const Json& told : *workers) {
    const auto rank = static_cast<int32_t>(integer_or(told, "rank", -1));
    if (rank < 0 || (workers_.size() >= kWorkersMax && !workers_.contains(rank))) continue;
    Worker& worker = workers_[rank];
    worker.since_ns = integer_or(told, "since_ns", 0);
    worker.seconds.push_back(
        {row.origin.time_ns, number_or(told, "done", 0), number_or(told, "spent_ms", 0)});
    while (row.origin.time_ns - worker.seconds.front().time_ns > kSpanNs) {
      worker.seconds.pop_front();
    }
  }
  return true;
}

std::optional<rules::Finding> Closures::slow_worker() const {
  if (workers_.size() < 2) return std::nullopt;
  std::map<int32_t, double> means;
  for (const auto& [rank, worker] : workers_) {
    if (worker.seconds.empty()) return std::nullopt;
    const int64_t span_ns = worker.seconds.back().time_ns - worker.seconds.front().time_ns;
    double done = 0;
    double spent_ms = 0;
    for (const Second& second : worker.seconds) {
      done += second.done;
      spent_ms += second.spent_ms;
    }
    if (span_ns < kSpanMinNs || done < kFunctionsMin) return std::nullopt;
    means[rank] = spent_ms / done;
  }
  const auto slowest = std::max_element(
      means.begin(), means.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  std::vector<double> others;
  for (const auto& [rank, mean] : means) {
    if (rank != slowest->first) others.push_back(mean);
  }
  const double usual = median_of(others);
  const double next = *std::max_element(others.begin(), others.end());
  if (slowest->second < kSlowdownMin * usual || slowest->second < next + kExcessMsMin) {
    return std::nullopt;
  }
  rules::Finding finding;
  finding.severity = rules::Severity::kWarning;
  finding.rank = slowest->first;
  finding.value = slowest->second / std::max(usual, 0.1);
  finding.threshold = kSlowdownMin;
  finding.confidence = 0.8;
  finding.message = fmt::format(
      "rank {} is a slow worker: a function that is sent to it takes {:.0f} ms, one of the others "
      "{:.0f} ms; it does so much less of the work",
      slowest->first, slowest->second, usual);
  finding.evidence.emplace_back("from the coordinator's clock, sending and fetching included");
  finding.fix = "look at the machine of this worker and at the way to it; the others do its work";
  return finding;
}

std::optional<rules::Finding> Closures::stuck_worker(const Job& job) const {
  if (waits_since_ns_ == 0) return std::nullopt;
  const Rank* coordinator = job.ranks().find(coordinator_);
  if (coordinator == nullptr || coordinator->is_gone()) return std::nullopt;
  for (const auto& [rank, worker] : workers_) {
    const Rank* state = job.ranks().find(rank);
    if (worker.since_ns == 0 || state == nullptr || state->is_gone()) continue;
    const bool is_stopped = state->process.state == 'T' || state->process.state == 't';
    const int64_t waited_ns = job.time_ns() - std::max(worker.since_ns, waits_since_ns_);
    if (waited_ns < (is_stopped ? kStoppedNs : kStuckNs)) continue;
    const double waited_s = static_cast<double>(waited_ns) / 1e9;
    rules::Finding finding;
    finding.severity = rules::Severity::kError;
    finding.rank = rank;
    finding.confidence = is_stopped ? 0.95 : 0.6;
    finding.value = waited_s;
    finding.message = fmt::format(
        "rank {} {} and does not give back a function that was sent to it, for which the "
        "coordinator waits since {}",
        rank, is_stopped ? "is stopped" : "runs", name_duration(waited_s));
    finding.evidence.push_back(fmt::format("rank {} (pid {}) is in state {}", rank,
                                           state->process.pid, state->process.state));
    finding.evidence.emplace_back("rests on /proc and on what the coordinator told");
    return finding;
  }
  return std::nullopt;
}

}  // namespace paramedic::cluster
