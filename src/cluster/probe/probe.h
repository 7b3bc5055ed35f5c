#pragma once
// The network between the hosts of a job, measured before it starts: every host runs the same
// program, which serves the others and measures the way to each of them. Plain TCP, every step
// bounded in time; nothing is done for who does not know the token.
//
// A conversation: the client says "paramedic-probe 1 TOKEN INDEX", the server "ok INDEX". Then
// requests of one line each: "ping" → the server's wall clock in ns; "take BYTES" and so many
// bytes → "taken"; "row" → what the server has measured, as JSON, or "none" while it measures.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace paramedic::cluster {

struct Peer {
  std::string host;
  int32_t port = 0;
};

struct ProbeOptions {
  std::vector<Peer> peers;  // all hosts, in the same order everywhere
  size_t self = 0;          // which of them this is
  std::string token;
  int64_t wait_ms = 60'000;    // for the others to start and to finish
  uint64_t bytes = 32U << 20;  // sent to each of them
};

// The way from one host to another one.
struct Path {
  std::string status = "timeout";  // ok, unresolved, refused, timeout, wrong_token, stranger
  std::string detail;
  double latency_ms = 0;       // the shortest of several round trips
  double megabytes_per_s = 0;  // sending
  double clock_offset_ms = 0;  // the other's clock minus ours
  int32_t mtu = 0;

  [[nodiscard]] bool ok() const { return status == "ok"; }
  [[nodiscard]] Json to_json() const;
  static Path from_json(const Json& json);
};

// rows[i][j]: from host i to host j; a row is missing when that host told none in time.
struct ProbeResult {
  std::vector<std::optional<std::vector<Path>>> rows;
};

// `note` hears what it does, for people.
Result<ProbeResult> run_probe(const ProbeOptions& options,
                              const std::function<void(const std::string&)>& note);

// "a:29500" or "a" with `port`.
Result<std::vector<Peer>> parse_peers(const std::vector<std::string>& words, int32_t port);

// What is wrong, one sentence each: nobody there, names, clocks, MTU, a way that is slower than
// the others.
std::vector<std::string> judge_probe(const std::vector<Peer>& peers, const ProbeResult& result);

}  // namespace paramedic::cluster
