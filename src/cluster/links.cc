#include "cluster/links.h"

#include <algorithm>

#include "base/json.h"

namespace paramedic::cluster {
namespace {

constexpr size_t kProcessesMax = 10'000;
constexpr size_t kConnectionsMax = 256;  // kept of a process
constexpr size_t kToldMax = 1024;        // of one event
constexpr size_t kSamplesMax = 16;       // kept of a connection
constexpr double kBytesMax = 1e18;

double amount(const Json& json, const char* name) {
  return std::clamp(number_or(json, name, 0), 0.0, kBytesMax);
}

}  // namespace

bool Links::on_event(const store::EventRow& row) {
  if (row.kind != "links") return false;
  const auto json = parse_json(row.json, "event links");
  if (!json.ok() || !json->is_object()) return true;
  const auto told = json->find("links");
  if (told == json->end() || !told->is_array()) return true;
  if (by_pid_.size() >= kProcessesMax && !by_pid_.contains(row.origin.pid)) return true;
  newest_ns_ = std::max(newest_ns_, row.origin.time_ns);
  auto& connections = by_pid_[row.origin.pid];
  // One that was closed is told no more.
  if (connections.size() > kConnectionsMax) connections.clear();
  for (size_t i = 0; i < std::min(told->size(), kToldMax); ++i) {
    const Json& one = (*told)[i];
    if (!one.is_object()) continue;
    Connection& known = connections[{string_or(one, "here", ""), string_or(one, "there", "")}];
    const double rtt_us = number_or(one, "min_rtt_us", -1);
    if (rtt_us > 0) known.rtt_ms = rtt_us / 1000;
    const double busy_us = amount(one, "busy_us") - amount(one, "peer_full_us");
    known.samples.push_back({row.origin.time_ns, amount(one, "sent_bytes"), busy_us / 1000,
                             amount(one, "segments"), amount(one, "sent_again")});
    if (known.samples.size() > kSamplesMax) known.samples.pop_front();
  }
  return true;
}

std::vector<Link> Links::newest(const Ranks& ranks, double ms) const {
  const int64_t since_ns = newest_ns_ - static_cast<int64_t>(ms * 1e6);
  // A connection has two ends, and what is `here` at one is `there` at the other.
  std::map<Ends, int32_t> rank_at;
  for (const auto& [number, rank] : ranks.all()) {
    const auto known = by_pid_.find(rank.process.pid);
    if (known == by_pid_.end()) continue;
    for (const auto& [ends, connection] : known->second) rank_at[ends] = number;
  }
  std::map<std::pair<int32_t, int32_t>, Link> links;
  for (const auto& [ends, from] : rank_at) {
    const auto other = rank_at.find({ends.second, ends.first});
    if (other == rank_at.end() || other->second == from) continue;
    Link& link = links[{from, other->second}];
    link.from = from;
    link.to = other->second;
    add(by_pid_.at(ranks.find(from)->process.pid).at(ends), since_ns, link);
  }
  std::vector<Link> all;
  for (const auto& [pair, link] : links) all.push_back(link);
  return all;
}

void Links::add(const Connection& connection, int64_t since_ns, Link& link) {
  const Sample& last = connection.samples.back();
  if (last.time_ns < since_ns) return;
  const auto first = std::find_if(connection.samples.begin(), connection.samples.end(),
                                  [&](const Sample& sample) { return sample.time_ns >= since_ns; });
  if (connection.rtt_ms) {
    link.rtt_ms = std::min(link.rtt_ms.value_or(*connection.rtt_ms), *connection.rtt_ms);
  }
  link.sent_bytes += std::max(0.0, last.sent_bytes - first->sent_bytes);
  // Several that share the way are busy at the same time.
  link.busy_ms = std::max(link.busy_ms, last.busy_ms - first->busy_ms);
  const double segments = last.segments - first->segments;
  const double again = last.sent_again - first->sent_again;
  if (segments > 0) link.again_share = std::max(link.again_share, again / segments);
}

}  // namespace paramedic::cluster
