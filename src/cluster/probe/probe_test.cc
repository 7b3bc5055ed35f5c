#include "cluster/probe/probe.h"

#include <gtest/gtest.h>

#include <thread>

#include "cluster/probe/socket.h"

namespace paramedic::cluster {
namespace {

// Free ports of this machine: taken and given back.
std::vector<Peer> loopback_peers(size_t count) {
  std::vector<Socket> held;
  std::vector<Peer> peers;
  for (size_t i = 0; i < count; ++i) {
    auto socket = Socket::listen(0);
    EXPECT_TRUE(socket.ok());
    peers.push_back({"127.0.0.1", socket->port()});
    held.push_back(std::move(*socket));
  }
  return peers;
}

ProbeResult probe_as(const std::vector<Peer>& peers, size_t self, const std::string& token,
                     int64_t wait_ms) {
  ProbeOptions options;
  options.peers = peers;
  options.self = self;
  options.token = token;
  options.wait_ms = wait_ms;
  options.bytes = 1U << 20;
  auto result = run_probe(options, [](const std::string&) {});
  EXPECT_TRUE(result.ok()) << result.status().to_string();
  return result.ok() ? std::move(*result) : ProbeResult();
}

TEST(probe, two_hosts_measure_each_other_and_both_know_the_whole_matrix) {
  const auto peers = loopback_peers(2);
  ProbeResult results[2];
  std::thread other([&] { results[1] = probe_as(peers, 1, "t", 60'000); });
  results[0] = probe_as(peers, 0, "t", 60'000);
  other.join();
  for (const ProbeResult& result : results) {
    ASSERT_EQ(result.rows.size(), 2U);
    for (size_t from = 0; from < 2; ++from) {
      ASSERT_TRUE(result.rows[from]);
      const Path& path = (*result.rows[from])[1 - from];
      EXPECT_EQ(path.status, "ok") << path.detail;
      EXPECT_GT(path.megabytes_per_s, 0);
      EXPECT_GT(path.latency_ms, 0);
      EXPECT_GT(path.mtu, 0);
    }
  }
}

TEST(probe, a_host_with_another_token_is_told_nothing) {
  const auto peers = loopback_peers(2);
  std::thread other([&] { probe_as(peers, 1, "other", 3000); });
  const ProbeResult result = probe_as(peers, 0, "t", 3000);
  other.join();
  EXPECT_EQ((*result.rows[0])[1].status, "wrong_token");
  EXPECT_FALSE(result.rows[1]);
  EXPECT_FALSE(judge_probe(peers, result).empty());
}

TEST(probe, a_host_that_is_not_there_and_a_name_that_is_none) {
  auto peers = loopback_peers(2);
  peers.push_back({"no-such-host.invalid", 29500});
  const ProbeResult result = probe_as(peers, 0, "t", 500);
  EXPECT_EQ((*result.rows[0])[1].status, "refused");
  EXPECT_EQ((*result.rows[0])[2].status, "unresolved");
}

TEST(probe, a_port_that_is_taken_is_an_error) {
  auto held = Socket::listen(0);
  ASSERT_TRUE(held.ok());
  ProbeOptions options;
  options.peers = {{"127.0.0.1", held->port()}, {"127.0.0.1", 1}};
  EXPECT_FALSE(run_probe(options, [](const std::string&) {}).ok());
}

TEST(probe, hosts_are_names_with_or_without_a_port) {
  const auto peers = parse_peers({"a", "b:7"}, 29500);
  ASSERT_TRUE(peers.ok());
  EXPECT_EQ((*peers)[0].port, 29500);
  EXPECT_EQ((*peers)[1].port, 7);
  EXPECT_FALSE(parse_peers({"a"}, 29500).ok());
  EXPECT_FALSE(parse_peers({"a", "b:x"}, 29500).ok());
  EXPECT_FALSE(parse_peers({"a", ":1"}, 29500).ok());
}

TEST(probe, one_slow_way_and_one_wrong_clock_are_named) {
  const std::vector<Peer> peers = {{"a", 1}, {"b", 1}, {"c", 1}};
  ProbeResult result;
  for (size_t from = 0; from < 3; ++from) {
    result.rows.emplace_back(std::vector<Path>(3));
    for (Path& path : *result.rows.back()) path = {"ok", "", 0.2, 1000, 0, 1500};
  }
  EXPECT_TRUE(judge_probe(peers, result).empty());
  (*result.rows[1])[2].megabytes_per_s = 90;
  (*result.rows[0])[1].clock_offset_ms = 4000;
  const auto problems = judge_probe(peers, result);
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_EQ(problems[0], "a → b: the clocks differ by 4.0 s");
  EXPECT_EQ(problems[1], "b → c: 90.0 MB/s, the others 1000.0");
}

}  // namespace
}  // namespace paramedic::cluster
