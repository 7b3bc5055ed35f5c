// Clocks of hosts that cannot both be right: a rank has left a collective before another one, by
// its host's clock, has entered it.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "cluster/watch.h"

namespace paramedic::cluster {
namespace {

constexpr int64_t kSkewNs = 500'000'000;
constexpr size_t kCallsMax = 4096;
constexpr size_t kHostsMax = 100'000;

// Nobody gets its result before everybody has brought his part.
bool is_barrier_like(const std::string& operation) {
  static const std::set<std::string> kOperations = {"all_reduce",
                                                    "all_gather",
                                                    "all_gather_into_tensor",
                                                    "reduce_scatter",
                                                    "reduce_scatter_tensor",
                                                    "all_to_all",
                                                    "all_to_all_single",
                                                    "barrier"};
  return kOperations.contains(operation);
}

class ClockSkew : public Watch {
 public:
  using Watch::Watch;

  void on_event(const store::EventRow& row) override {
    if (row.kind != "environment" && row.kind != "facts") return;
    const auto json = parse_json(row.json, "an event");
    if (!json.ok() || host_of_.size() >= kHostsMax) return;
    const std::string host = string_or(*json, "host", "");
    if (!host.empty()) host_of_[row.origin.pid] = host;
  }

  void on_collective(const store::CollectiveRow& row) override {
    if (row.left_ns == 0 || row.asynchronous || !is_barrier_like(row.operation)) return;
    const auto host = host_of_.find(row.origin.pid);
    if (host == host_of_.end()) return;
    Call& call = calls_[{row.group->name, row.sequence}];
    if (call.first_left_ns == 0 || row.left_ns < call.first_left_ns) {
      call.first_left_ns = row.left_ns;
      call.left_host = host->second;
    }
    if (row.entered_ns > call.last_entered_ns) {
      call.last_entered_ns = row.entered_ns;
      call.entered_host = host->second;
      call.entered_rank = row.origin.rank;
    }
    judge(call);
    if (calls_.size() > kCallsMax) calls_.erase(calls_.begin());
  }

 private:
  struct Call {
    int64_t first_left_ns = 0;
    int64_t last_entered_ns = 0;
    std::string left_host;
    std::string entered_host;
    int32_t entered_rank = 0;
  };

  void judge(const Call& call) {
    const int64_t skew_ns = call.last_entered_ns - call.first_left_ns;
    if (skew_ns < kSkewNs || call.left_host == call.entered_host) return;
    int64_t& worst = worst_ns_[{call.left_host, call.entered_host}];
    if (skew_ns < worst * 2) return;
    worst = skew_ns;
    rules::Finding finding;
    finding.severity = rules::Severity::kWarning;
    finding.value = static_cast<double>(skew_ns) / 1e9;
    finding.threshold = static_cast<double>(kSkewNs) / 1e9;
    finding.confidence = 0.95;
    finding.message = fmt::format(
        "the clock of {} is at least {:.1f} s ahead of that of {}: by them, rank {} entered a "
        "collective after another rank had its result",
        call.entered_host, static_cast<double>(skew_ns) / 1e9, call.left_host, call.entered_rank);
    report(std::move(finding), call.left_host + "/" + call.entered_host);
  }

  std::map<int32_t, std::string> host_of_;  // by pid
  std::map<std::pair<std::string, int64_t>, Call> calls_;
  std::map<std::pair<std::string, std::string>, int64_t> worst_ns_;
};

}  // namespace

WatchEntry clock_skew_watch() {
  return {{"clock_skew",
           rules::Severity::kWarning,
           "The clocks of two hosts differ",
           "In a collective that needs a part of every rank, a rank on one host has left before a "
           "rank on another host has entered, each by its own clock, by more than half a second. "
           "That cannot be: the clocks differ at least so much. Ranks on one host share a clock.",
           "run chrony or ntpd on all hosts: times in logs cannot be compared",
           {}},
          &make_watch<ClockSkew>};
}

}  // namespace paramedic::cluster
