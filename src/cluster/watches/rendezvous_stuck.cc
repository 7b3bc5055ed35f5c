// Ranks that wait in init_process_group for somebody who does not come.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "cluster/lint/lint.h"
#include "cluster/lint/settings_book.h"
#include "cluster/lint/tf_config.h"
#include "cluster/watch.h"

namespace paramedic::cluster {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
// Once the last of them has begun, a rendezvous takes less than a second.
constexpr int64_t kStuckNs = 8 * kSecond;
// A rank that lives, but does nothing, may fetch data first.
constexpr int64_t kIdleNs = 25 * kSecond;
// Other hosts start when they are given to us.
constexpr int64_t kOtherHostsNs = 120 * kSecond;
// With nobody missing and no reason to be seen.
constexpr int64_t kUnexplainedNs = 40 * kSecond;
constexpr double kBusyPercent = 5;
constexpr int32_t kWorldMax = 100'000;

struct Seat {
  const Setting* process = nullptr;
  const Rendezvous* told = nullptr;  // nullptr: it has not begun
  [[nodiscard]] bool runs() const { return process->last_ns == 0; }
  [[nodiscard]] bool waits() const {
    return runs() && told != nullptr && told->done_ns == 0 && !told->failed;
  }
};

std::string ranks_text(const std::vector<int32_t>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

// The loopback has several names.
std::string point_of(const Rendezvous& told) {
  if (told.endpoint.empty()) return told.init_method;
  const size_t colon = told.endpoint.find_last_of(':');
  const std::string address = told.endpoint.substr(0, colon);
  return (is_loopback(address) ? "localhost" : address) + told.endpoint.substr(colon);
}

bool lost_patience(const std::string& error) {
  return error.find("imed out") != std::string::npos || error.find("imeout") != std::string::npos;
}

class RendezvousStuck : public Watch {
 public:
  using Watch::Watch;

  void on_event(const store::EventRow& row) override { book_.take(row); }

  void on_metric(const store::MetricRow& row) override {
    if (row.name == "cpu_percent" && row.value >= kBusyPercent) busy_ns_[row.pid] = row.time_ns;
  }

  void tick(const Moment& moment) override {
    if (book_.newest_ns() == 0) return;
    now_ns_ = moment.time_ns;
    for (const JobSettings& job : book_.jobs()) {
      judge_ranks(job);
      judge_tasks(job);
    }
  }

 private:
  // One look at a job in which somebody waits.
  struct View {
    std::map<int32_t, Seat> seats;  // the newest process of each rank
    std::vector<int32_t> waiting;
    int32_t world_size = 0;
    int64_t newest_begun_ns = 0;
    int64_t newest_ns = 0;  // start of a process, or of its rendezvous
    bool spans_hosts = false;
  };

  [[nodiscard]] View view_of(const JobSettings& job) const {
    View view;
    view.spans_hosts = job.spans_hosts();
    for (const Setting& process : job.processes) {
      const auto rank = process.rank();
      if (!rank || *rank < 0 || *rank >= kWorldMax) continue;
      Seat& seat = view.seats[static_cast<int32_t>(*rank)];
      if (seat.process != nullptr && seat.process->first_ns > process.first_ns) continue;
      seat = {&process, book_.rendezvous(process.pid)};
      view.newest_ns = std::max(view.newest_ns, process.first_ns);
    }
    for (const auto& [rank, seat] : view.seats) {
      if (!seat.waits()) continue;
      view.waiting.push_back(rank);
      view.world_size =
          std::max(view.world_size, static_cast<int32_t>(seat.process->world_size().value_or(0)));
      view.newest_begun_ns = std::max(view.newest_begun_ns, seat.told->begun_ns);
    }
    view.newest_ns = std::max(view.newest_ns, view.newest_begun_ns);
    view.world_size = std::min(view.world_size, kWorldMax);
    return view;
  }

  void judge_ranks(const JobSettings& job) {
    const View view = view_of(job);
    if (view.waiting.empty() || now_ns_ - view.newest_begun_ns < kStuckNs) return;
    if (tell_odd_point(view) || tell_absent(view) || tell_ended(view) || tell_idle(view)) return;
    if (tell_foreign_address(job, view)) return;
    const bool all_wait = static_cast<int32_t>(view.waiting.size()) == view.world_size;
    if (!all_wait || now_ns_ - view.newest_begun_ns < kUnexplainedNs) return;
    tell(view, std::nullopt,
         fmt::format("all {} ranks have waited in init_process_group for {} s", view.world_size,
                     seconds_since(view.newest_begun_ns)),
         "unexplained");
  }

  [[nodiscard]] int64_t seconds_since(int64_t time_ns) const {
    return (now_ns_ - time_ns) / kSecond;
  }

  // Who waits at another place than the others.
  bool tell_odd_point(const View& view) {
    std::map<std::string, std::vector<int32_t>> by_point;
    for (const int32_t rank : view.waiting) {
      by_point[point_of(*view.seats.at(rank).told)].push_back(rank);
    }
    if (by_point.size() < 2) return false;
    const auto larger = [](const auto& a, const auto& b) {
      return a.second.size() < b.second.size();
    };
    const auto most = std::max_element(by_point.begin(), by_point.end(), larger);
    for (const auto& [point, ranks] : by_point) {
      if (point == most->first) continue;
      const bool is_sure = ranks.size() < most->second.size();
      for (const int32_t rank : ranks) {
        tell(view, is_sure ? std::optional(rank) : std::nullopt,
             fmt::format("rank {} waits at {}, and {} at {}", rank, point, ranks_text(most->second),
                         most->first),
             is_sure ? "point" : "points");
      }
    }
    return true;
  }

  bool tell_absent(const View& view) {
    std::vector<int32_t> absent;
    for (int32_t rank = 0; rank < view.world_size; ++rank) {
      if (!view.seats.contains(rank)) absent.push_back(rank);
    }
    const int64_t limit = view.spans_hosts ? kOtherHostsNs : kStuckNs;
    if (absent.empty() || now_ns_ - view.newest_ns < limit) return false;
    const auto guilty = absent.size() == 1 ? std::optional(absent.front()) : std::nullopt;
    const size_t shown = std::min<size_t>(absent.size(), 8);
    const std::vector<int32_t> some(absent.begin(), absent.begin() + static_cast<int>(shown));
    tell(view, guilty,
         fmt::format("{} {} wait in init_process_group for {}{}, which was never started{}: "
                     "WORLD_SIZE is {}",
                     ranks_text(view.waiting), view.waiting.size() == 1 ? "has to" : "have to",
                     ranks_text(some), shown < absent.size() ? ", …" : "",
                     view.spans_hosts ? " on this host" : "", view.world_size),
         "absent");
    return true;
  }

  bool tell_ended(const View& view) {
    bool any = false;
    for (const auto& [rank, seat] : view.seats) {
      const bool met = seat.told != nullptr && seat.told->done_ns != 0;
      if (met || (seat.runs() && (seat.told == nullptr || !seat.told->failed))) continue;
      // It lost patience, as the others will: whom it waited for is the question.
      if (seat.told != nullptr && lost_patience(seat.told->error)) continue;
      std::string message =
          fmt::format("rank {} {} before it met the others; {} still wait{}", rank,
                      seat.runs() ? "gave up" : "ended", ranks_text(view.waiting),
                      view.waiting.size() == 1 ? "s" : "");
      if (seat.told != nullptr && !seat.told->error.empty()) message += ": " + seat.told->error;
      tell(view, rank, std::move(message), "ended");
      any = true;
    }
    return any;
  }

  // It lives and has not come; whoever computes or loads will come.
  bool tell_idle(const View& view) {
    if (now_ns_ - view.newest_ns < kIdleNs) return false;
    bool any = false;
    for (const auto& [rank, seat] : view.seats) {
      if (seat.told != nullptr || !seat.runs()) continue;
      const auto busy = busy_ns_.find(seat.process->pid);
      if (busy != busy_ns_.end() && now_ns_ - busy->second < kStuckNs) continue;
      tell(view, rank,
           fmt::format("rank {} (pid {}) has not come to init_process_group and does nothing; {} "
                       "wait{} for it since {} s",
                       rank, seat.process->pid, ranks_text(view.waiting),
                       view.waiting.size() == 1 ? "s" : "", seconds_since(view.newest_begun_ns)),
           "idle");
      any = true;
    }
    return any;
  }

  // Rank 0 opens the store; the others look for it at MASTER_ADDR.
  bool tell_foreign_address(const JobSettings& job, const View& view) {
    const auto first = view.seats.find(0);
    if (first == view.seats.end()) return false;
    const Setting& process = *first->second.process;
    const HostFacts* facts = job.facts(process.host);
    const std::string address = value_or_empty(process, "MASTER_ADDR");
    const auto found = facts == nullptr
                           ? std::map<std::string, std::vector<std::string>>::const_iterator()
                           : facts->names.find(address);
    if (facts == nullptr || address.empty() || is_loopback(address)) return false;
    if (found == facts->names.end() || found->second.empty()) return false;
    for (const NetworkInterface& net : facts->interfaces) {
      for (const std::string& own : net.addresses) {
        if (own == found->second.front() || is_loopback(found->second.front())) return false;
      }
    }
    tell(view, std::nullopt,
         fmt::format("MASTER_ADDR {} is no address of {}, where rank 0 runs: {} wait", address,
                     process.host, ranks_text(view.waiting)),
         "address");
    return true;
  }

  void tell(const View& view, std::optional<int32_t> rank, std::string message,
            const std::string& topic) {
    const std::string key = fmt::format("{}/{}", rank.value_or(-1), topic);
    if (!told_.insert(key).second) return;
    rules::Finding finding;
    finding.severity = rules::Severity::kError;
    finding.rank = rank;
    finding.stage = "distributed";
    finding.confidence = 0.9;
    finding.message = std::move(message);
    const auto guilty = rank ? view.seats.find(*rank) : view.seats.end();
    const bool was_there = guilty != view.seats.end() && guilty->second.told != nullptr;
    const Seat& seat = was_there ? guilty->second : view.seats.at(view.waiting.front());
    finding.where = seat.told->where;
    for (const auto& [number, other] : view.seats) {
      if (finding.evidence.size() >= 12) break;
      finding.evidence.push_back(fmt::format(
          "rank {}: {}", number,
          !other.runs()           ? "ended"
          : other.told == nullptr ? "has not come to init_process_group"
          : other.told->done_ns != 0
              ? "has left init_process_group"
              : fmt::format("waits since {} s at {}", seconds_since(other.told->begun_ns),
                            point_of(*other.told))));
    }
    report(std::move(finding), topic);
  }

  // TensorFlow's workers wait for every task of their cluster. Only where all of it is on this
  // host can it be told who was not started.
  void judge_tasks(const JobSettings& job) {
    std::set<std::string> present;
    TfConfig cluster;
    int64_t newest_ns = 0;
    for (const Setting& process : job.processes) {
      const std::string* text = process.variable("TF_CONFIG");
      if (text == nullptr || process.rank() || process.last_ns != 0) continue;
      TfConfig config = parse_tf_config(*text);
      if (!config.error.empty()) continue;
      present.insert(config.task());
      newest_ns = std::max(newest_ns, process.first_ns);
      cluster = std::move(config);
    }
    if (present.empty() || now_ns_ - newest_ns < kIdleNs) return;
    for (const auto& [type, addresses] : cluster.cluster) {
      for (const std::string& address : addresses) {
        if (!is_loopback(address.substr(0, address.find_last_of(':')))) return;
      }
    }
    for (const auto& [type, addresses] : cluster.cluster) {
      for (size_t i = 0; i < addresses.size(); ++i) {
        const std::string task = fmt::format("{}:{}", type, i);
        if (type == "evaluator" || ended_well(job, task) || present.contains(task)) continue;
        if (told_.insert(task).second) tell_task(job, cluster, type, i, present);
      }
    }
  }

  [[nodiscard]] static bool ended_well(const JobSettings& job, const std::string& task) {
    return std::any_of(job.processes.begin(), job.processes.end(),
                       [&](const Setting& process) { return process.name == task; });
  }

  void tell_task(const JobSettings& job, TfConfig cluster, const std::string& type, size_t index,
                 const std::set<std::string>& present) {
    const std::string address = cluster.cluster[type][index];
    cluster.type = type;
    cluster.index = static_cast<int64_t>(index);
    rules::Finding finding;
    finding.severity = rules::Severity::kError;
    finding.rank = cluster.rank();
    finding.stage = "distributed";
    finding.confidence = 0.8;
    finding.message = fmt::format("{} ({}) of TF_CONFIG was never started; {} wait for it",
                                  cluster.task(), address, fmt::join(present, ", "));
    for (const Setting& process : job.processes) {
      const Rendezvous* told = book_.rendezvous(process.pid);
      if (told != nullptr && told->where && !finding.where) finding.where = told->where;
    }
    finding.fix = "start this task, or take it out of the cluster";
    report(std::move(finding), "task");
  }

  SettingsBook book_;
  std::map<int32_t, int64_t> busy_ns_;  // by pid
  std::set<std::string> told_;
  int64_t now_ns_ = 0;
};

}  // namespace

WatchEntry rendezvous_stuck_watch() {
  return {{"rendezvous_stuck",
           rules::Severity::kError,
           "Ranks wait in init_process_group and the rendezvous does not end",
           "Some ranks are inside init_process_group for more than 8 s after the last of them "
           "came, and one of the others was never started, has ended, does nothing, or waits at "
           "another address or port. A rank that still computes (imports, reads data) is waited "
           "for; ranks on other hosts for two minutes.",
           "start the rank that is named, or give it the same MASTER_ADDR, MASTER_PORT and "
           "WORLD_SIZE as the others",
           {}},
          &make_watch<RendezvousStuck>};
}

}  // namespace paramedic::cluster
