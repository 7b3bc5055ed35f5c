#include "cluster/hang.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace paramedic::cluster {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
// A stall that is gone for as long is over.
constexpr int64_t kOverNs = 2 * kSecondNs;
constexpr size_t kFollowedMax = 1'000;
constexpr size_t kRanksNamedMax = 8;
constexpr size_t kCampsNamedMax = 8;
constexpr size_t kSuspectsNamedMax = 4;
constexpr size_t kFramesNamedMax = 5;
// The told duration is brought up to date when it has grown by this factor.
constexpr double kToldAgain = 2;

const Waiter& first_waiter(const Stall& stall) {
  return *std::min_element(
      stall.waiters.begin(), stall.waiters.end(),
      [](const Waiter& a, const Waiter& b) { return a.since_ns < b.since_ns; });
}

std::string place_of(const Stall& stall) {
  const Waiter& first = first_waiter(stall);
  return fmt::format("{}:{}/{}", first.where.file, first.where.line, first.operation);
}

std::string stack_line(const Suspect& suspect, const StallReport& report) {
  std::vector<std::string> frames;
  for (const store::CallSite& frame : report.stack) {
    if (!is_own_file(frame.file) || frames.size() >= kFramesNamedMax) continue;
    frames.push_back(fmt::format("{} ({})", place(frame), frame.function));
  }
  if (frames.empty()) return {};
  return fmt::format("rank {} stands at {}", suspect.rank, fmt::join(frames, ", called from "));
}

std::string process_line(const Suspect& suspect, const Rank& rank) {
  if (rank.is_gone()) return fmt::format("the process of rank {} is gone", suspect.rank);
  std::string line = fmt::format("rank {} (pid {}) is in state {}", suspect.rank, rank.process.pid,
                                 rank.process.state);
  if (!rank.process.wait.empty()) line += fmt::format(", in {}", rank.process.wait);
  if (rank.cpu_percent() >= 0) line += fmt::format(", {:.0f} % of a core", rank.cpu_percent());
  return line;
}

std::string layers_line(const Job& job, const Stall& stall) {
  bool flight = false;
  bool hooks = false;
  for (const Waiter& waiter : stall.waiters) {
    (waiter.from_flight ? flight : hooks) = true;
  }
  for (const Suspect& suspect : stall.suspects) {
    const Rank* rank = job.ranks().find(suspect.rank);
    hooks = hooks || (rank != nullptr && rank->stalled() != nullptr);
  }
  std::vector<std::string> layers{"/proc"};
  if (hooks) layers.emplace_back("calls and stacks seen in the processes");
  if (flight) layers.emplace_back("the framework's flight recorder");
  return fmt::format("rests on {}", fmt::join(layers, ", "));
}

}  // namespace

void HangWatch::tick(const Moment& moment) {
  for (const Stall& stall : find_stalls(job())) follow(stall);
  for (auto entry = followed_.begin(); entry != followed_.end();) {
    Followed& followed = entry->second;
    const bool is_over = moment.time_ns - followed.seen_ns >= kOverNs;
    if (is_over && went_on(followed.stall)) {
      take_back(followed, entry->first);
      entry = followed_.erase(entry);
    } else if (is_over && followed.told_s == 0) {
      entry = followed_.erase(entry);
    } else {
      ++entry;
    }
  }
}

// The topic of the stall of which this one is a later look, else a new one: some of those that
// waited may have failed since, and others have come.
std::string HangWatch::topic_of(const Stall& stall) const {
  std::map<int32_t, int64_t> since_ns;
  for (const Waiter& waiter : stall.waiters) since_ns[waiter.rank] = waiter.since_ns;
  for (const auto& [topic, followed] : followed_) {
    for (const Waiter& waiter : followed.stall.waiters) {
      const auto known = since_ns.find(waiter.rank);
      if (known != since_ns.end() && known->second == waiter.since_ns) return topic;
    }
  }
  const Waiter& first = first_waiter(stall);
  return fmt::format("{}/{}/{}", first.group, first.number, first.since_ns);
}

void HangWatch::follow(const Stall& stall) {
  const std::string topic = topic_of(stall);
  if (!followed_.contains(topic) && followed_.size() >= kFollowedMax) return;
  Followed& followed = followed_[topic];
  const bool is_the_same = followed.stall.doing == stall.doing;
  followed.stall = stall;
  followed.seen_ns = job().time_ns();
  for (const Waiter& waiter : stall.waiters) followed.waited.insert(waiter.rank);
  const double waited_s = static_cast<double>(job().time_ns() - stall.since_ns) / kSecondNs;
  if (followed.told_s > 0 && is_the_same && waited_s < kToldAgain * followed.told_s) return;
  if (has_lost_waiters(followed)) return;
  const auto longest = longest_s_.find(place_of(stall));
  const Judgement judgement = judge(
      {stall.doing, waited_s, stall.is_start, longest == longest_s_.end() ? 0 : longest->second});
  if (!judgement.is_hang) return;
  auto finding = finding_of(stall, waited_s);
  if (!finding) return;
  // A verdict on one rank is not moved to another one by what happens later.
  if (followed.told_s > 0 && finding->rank != followed.told.rank) return;
  finding->severity = rules::Severity::kError;
  finding->confidence = judgement.confidence;
  finding->value = waited_s;
  finding->threshold = judgement.patience_s;
  followed.told = *finding;
  followed.told_s = waited_s;
  has_told_ = true;
  report(std::move(*finding), topic);
}

bool HangWatch::has_lost_waiters(const Followed& followed) const {
  return std::any_of(followed.waited.begin(), followed.waited.end(), [&](int32_t number) {
    const Rank* rank = job().ranks().find(number);
    return rank == nullptr || rank->is_gone() || rank->exiting;
  });
}

bool HangWatch::went_on(const Stall& stall) const {
  // Those that wait may have given up; the one that they waited for must have moved too.
  for (const Suspect& suspect : stall.suspects) {
    const Rank* rank = job().ranks().find(suspect.rank);
    if (rank == nullptr || rank->exiting || rank->is_gone()) continue;
    const StallReport* report = rank->stalled();
    const bool is_stopped = rank->process.state == 'T' || rank->process.state == 't';
    if (is_stopped || (report != nullptr && report->since_ns <= suspect.since_ns)) return false;
  }
  return std::all_of(stall.waiters.begin(), stall.waiters.end(), [&](const Waiter& waiter) {
    const Rank* rank = job().ranks().find(waiter.rank);
    if (rank == nullptr) return false;
    if (rank->exiting) return !rank->exiting->has_exception;
    return rank->is_gone() ? rank->process.closed : true;
  });
}

void HangWatch::take_back(Followed& followed, const std::string& topic) {
  const double lasted_s =
      static_cast<double>(followed.seen_ns - followed.stall.since_ns) / kSecondNs;
  if (!followed.stall.is_start) {
    double& longest_s = longest_s_[place_of(followed.stall)];
    longest_s = std::max(longest_s, lasted_s);
  }
  if (followed.told_s == 0) return;
  rules::Finding finding = followed.told;
  finding.severity = rules::Severity::kInfo;
  finding.value = lasted_s;
  finding.message = fmt::format("went on after {}: {}", name_duration(lasted_s), finding.message);
  report(std::move(finding), topic);
}

void HangWatch::finish() {
  for (auto& [topic, followed] : followed_) {
    const bool is_over = followed.seen_ns < job().time_ns();
    if (is_over && went_on(followed.stall)) take_back(followed, topic);
  }
}

std::string name_ranks(const std::vector<int32_t>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  if (ranks.size() > kRanksNamedMax) {
    return fmt::format("{} ranks ({}, …)", ranks.size(),
                       fmt::join(ranks.begin(), ranks.begin() + kRanksNamedMax, ", "));
  }
  return fmt::format("ranks {} and {}", fmt::join(ranks.begin(), ranks.end() - 1, ", "),
                     ranks.back());
}

std::string name_duration(double seconds) {
  return seconds < 120 ? fmt::format("{:.0f} s", seconds) : fmt::format("{:.1f} min", seconds / 60);
}

std::vector<Camp> camps_of(const Stall& stall) {
  std::vector<Camp> camps;
  for (const Waiter& waiter : stall.waiters) {
    const auto same = std::find_if(camps.begin(), camps.end(), [&](const Camp& camp) {
      return camp.waiter.group == waiter.group && camp.waiter.number == waiter.number &&
             camp.waiter.operation == waiter.operation &&
             camp.waiter.is_transfer == waiter.is_transfer;
    });
    if (same == camps.end()) {
      camps.push_back({waiter, {waiter.rank}});
    } else {
      same->ranks.push_back(waiter.rank);
    }
  }
  std::stable_sort(camps.begin(), camps.end(),
                   [](const Camp& a, const Camp& b) { return a.ranks.size() > b.ranks.size(); });
  return camps;
}

std::optional<Waiter> odd_waiter(const Stall& stall) {
  if (stall.doing != Doing::kDeadlock) return std::nullopt;
  if (stall.culprit) {
    const auto found =
        std::find_if(stall.waiters.begin(), stall.waiters.end(),
                     [&](const Waiter& waiter) { return waiter.rank == *stall.culprit; });
    if (found != stall.waiters.end()) return *found;
  }
  const auto camps = camps_of(stall);
  const bool one_is_odd =
      camps.size() == 2 && camps[1].ranks.size() == 1 && camps[0].ranks.size() > 1;
  if (!one_is_odd) return std::nullopt;
  const Waiter& odd = camps[1].waiter;
  const Waiter& others = camps[0].waiter;
  if (odd.group != others.group || odd.number != others.number) return std::nullopt;
  // The numbers of transfers are those of one rank alone.
  if (odd.is_transfer && others.is_transfer) return std::nullopt;
  return odd;
}

std::vector<std::string> evidence_of(const Job& job, const Stall& stall) {
  std::vector<std::string> evidence;
  const auto camps = camps_of(stall);
  for (size_t i = 0; i < std::min(camps.size(), kCampsNamedMax); ++i) {
    const Waiter& waiter = camps[i].waiter;
    const double waited_s = static_cast<double>(job.time_ns() - waiter.since_ns) / kSecondNs;
    evidence.push_back(fmt::format("{} in {} at {} since {}, call {} of group {}",
                                   name_ranks(camps[i].ranks), waiter.operation,
                                   place(waiter.where), name_duration(waited_s), waiter.number,
                                   waiter.group));
  }
  for (size_t i = 0; i < std::min(stall.suspects.size(), kSuspectsNamedMax); ++i) {
    const Suspect& suspect = stall.suspects[i];
    const Rank* rank = job.ranks().find(suspect.rank);
    if (rank == nullptr) continue;
    const std::string stack = rank->stalled() ? stack_line(suspect, *rank->stalled()) : "";
    if (!stack.empty()) evidence.push_back(stack);
    evidence.push_back(process_line(suspect, *rank));
  }
  evidence.push_back(layers_line(job, stall));
  return evidence;
}

std::optional<rules::Where> where_of(const store::CallSite& site) {
  if (site.line <= 0) return std::nullopt;
  return rules::Where{site.file, site.line, site.function};
}

}  // namespace paramedic::cluster
