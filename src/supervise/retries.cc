#include "supervise/retries.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace paramedic::supervise {
namespace {

constexpr double kDelayMaxS = 600;
// A collision of processes is over when they are.
constexpr double kCollisionDelayS = 1;
// A failure that came back is taken for one that always will; what the other side may mend in its
// own time gets one chance more.
constexpr int kSameMax = 1;
constexpr int kSameAfterDelayMax = 2;

bool contains(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

}  // namespace

bool Retries::is_wanted(const std::string& category, const std::string& retry) const {
  if (contains(options_.on, "any") || contains(options_.on, category)) return true;
  if (retry == "unknown") return contains(options_.on, "unknown");
  return retry != "never" && contains(options_.on, "transient");
}

RetryDecision Retries::decide(const Json& failure, int64_t steps) {
  const std::string category = string_or(failure, "category", "unknown");
  const std::string retry = string_or(failure, "retry", "unknown");
  const std::string fingerprint = string_or(failure, "fingerprint", "");
  const std::string cause =
      fmt::format("{} ({})", category, string_or(failure, "mechanism", "unknown"));
  const bool came_farther = steps > steps_;
  same_ = fingerprint == fingerprint_ && !came_farther ? same_ + 1 : 0;
  fingerprint_ = fingerprint;
  steps_ = std::max(steps_, steps);

  const auto end = [&](const std::string& why) {
    return RetryDecision{RetryDecision::Kind::kEnd, 0, fmt::format("no retry: {}: {}", cause, why)};
  };
  const std::string reason = string_or(failure, "retry_reason", "nothing is known of the cause");
  // Somebody wanted it to end.
  if (category == "user_cancelled") return end("somebody stopped the job");
  if (!is_wanted(category, retry)) return end(reason);
  if (same_ >= (retry == "after_delay" ? kSameAfterDelayMax : kSameMax)) {
    return end("the same as before, and no farther");
  }
  if (count_ >= options_.limit) {
    return end(fmt::format("it was tried {} times more already", options_.limit));
  }
  if (retry == "other_node") {
    if (!options_.asks_for_other_node) return end(reason + ", and --other-node asks for no other");
    return {RetryDecision::Kind::kOtherNode, 0,
            fmt::format("retry elsewhere: {}: {}", cause, reason)};
  }
  const double delay_s = retry == "same_node"
                             ? std::min(kCollisionDelayS, options_.delay_s)
                             : std::min(options_.delay_s * std::exp2(count_), kDelayMaxS);
  ++count_;
  return {RetryDecision::Kind::kAgain, delay_s,
          fmt::format("retry {} of {} in {:g} s: {}: {}", count_, options_.limit, delay_s, cause,
                      reason)};
}

}  // namespace paramedic::supervise
