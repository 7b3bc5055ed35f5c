#include "cluster/exchanges.h"

#include <algorithm>
#include <vector>

#include "base/median.h"

namespace paramedic::cluster {
namespace {

constexpr size_t kExchangesMax = 4096;
constexpr size_t kGroupsMax = 4096;
// Sizes are told apart when one is so many times another, and long enough to take time itself.
constexpr double kSizesRatioMin = 16;
constexpr double kLargeBytesMin = 64 * 1024;
constexpr size_t kSamplesMin = 4;  // of a size
constexpr double kMsFloor = 0.01;  // what no clock between processes tells

double bytes_of(const Signature& signature) {
  auto bytes = static_cast<double>(stats::dtype_bytes(signature.dtype));
  for (const int64_t size : signature.sizes) bytes *= static_cast<double>(size);
  return signature.sizes.empty() ? 0 : bytes;
}

}  // namespace

void Exchanges::look(const Groups& groups) {
  for (const auto& [key, group] : groups.all()) {
    if (group.ranks.size() < 2 || group.tracks.size() < group.ranks.size()) continue;
    if (!next_.contains(key) && next_.size() >= kGroupsMax) continue;
    int64_t& next = next_[key];
    int64_t end = INT64_MAX;
    bool is_certain = true;
    for (const auto& [rank, track] : group.tracks) {
      next = std::max(next, track.first);
      end = std::min(end, track.entered());
      is_certain = is_certain && !track.is_uncertain;
    }
    if (!is_certain) continue;
    const auto is_open = [&](const auto& entry) {
      const Call* const call = entry.second.at(next);
      return call->left_ns == 0 && call->signature != kUnknownSignature && !call->asynchronous;
    };
    while (next < end && std::none_of(group.tracks.begin(), group.tracks.end(), is_open)) {
      take(groups, group, next++);
    }
  }
}

void Exchanges::take(const Groups& groups, const Group& group, int64_t number) {
  int64_t last_entered_ns = 0;
  std::vector<double> left_ns;
  const Call* some = nullptr;
  for (const auto& [rank, track] : group.tracks) {
    some = track.at(number);
    if (some->signature == kUnknownSignature || some->asynchronous) return;
    last_entered_ns = std::max(last_entered_ns, some->entered_ns);
    left_ns.push_back(static_cast<double>(some->left_ns));
  }
  const double left = median_of(std::move(left_ns));
  const Signature& signature = groups.signature(some->signature);
  const double ms = std::max(0.0, (left - static_cast<double>(last_entered_ns)) / 1e6);
  exchanges_.push_back({signature.operation, bytes_of(signature), ms, static_cast<int64_t>(left)});
  if (exchanges_.size() > kExchangesMax) exchanges_.pop_front();
}

std::deque<Exchange> Exchanges::newest(double ms) const {
  int64_t newest_ns = 0;
  for (const Exchange& exchange : exchanges_) newest_ns = std::max(newest_ns, exchange.left_ns);
  std::deque<Exchange> some;
  for (const Exchange& exchange : exchanges_) {
    if (static_cast<double>(newest_ns - exchange.left_ns) <= ms * 1e6) some.push_back(exchange);
  }
  return some;
}

std::optional<SizeFit> fit_over_sizes(const std::deque<Exchange>& exchanges) {
  std::map<std::string, double> total_ms;
  for (const Exchange& exchange : exchanges) total_ms[exchange.operation] += exchange.ms;
  if (total_ms.empty()) return std::nullopt;
  SizeFit fit;
  fit.operation = std::max_element(total_ms.begin(), total_ms.end(), [](auto& one, auto& other) {
                    return one.second < other.second;
                  })->first;
  std::map<double, std::vector<double>> by_size;
  for (const Exchange& exchange : exchanges) {
    if (exchange.operation == fit.operation) by_size[exchange.bytes].push_back(exchange.ms);
  }
  std::erase_if(by_size, [](const auto& entry) { return entry.second.size() < kSamplesMin; });
  if (by_size.size() < 2) return std::nullopt;
  fit.smallest_bytes = by_size.begin()->first;
  fit.largest_bytes = by_size.rbegin()->first;
  if (fit.largest_bytes < std::max(kLargeBytesMin, kSizesRatioMin * fit.smallest_bytes)) {
    return std::nullopt;
  }
  // Least squares of the relative error, so that the small sizes have their say.
  double w = 0, wx = 0, wxx = 0, wy = 0, wxy = 0;
  for (const auto& [bytes, times] : by_size) {
    const double ms = std::max(kMsFloor, median_of(times));
    if (bytes == fit.smallest_bytes) fit.smallest_ms = ms;
    if (bytes == fit.largest_bytes) fit.largest_ms = ms;
    const double weight = 1 / (ms * ms);
    w += weight;
    wx += weight * bytes;
    wxx += weight * bytes * bytes;
    wy += weight * ms;
    wxy += weight * bytes * ms;
  }
  const double determinant = w * wxx - wx * wx;
  if (determinant <= 0) return std::nullopt;
  fit.byte_ms = std::max(0.0, (w * wxy - wx * wy) / determinant);
  fit.call_ms = std::max(0.0, (wy - fit.byte_ms * wx) / w);
  return fit;
}

}  // namespace paramedic::cluster
