#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "base/json.h"
#include "cluster/cluster.h"
#include "cluster/exchanges.h"
#include "cluster/test_cluster.h"

namespace paramedic::cluster {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

// The network between two ranks.
struct Way {
  double rtt_ms = 0.05;
  double bytes_s = 2e9;
};

// A job whose step is `work_ms` of computing and `exchange_ms` in which all ranks are there.
struct Step {
  double work_ms = 20;
  double exchange_ms = 2;
  double bytes = 1e6;  // that each rank sends to the next one
  double delay_share = 0;
};

// Ranks in a ring; each is connected with every other one.
class Network {
 public:
  explicit Network(int ranks, std::function<Way(int, int)> way)
      : ranks_(ranks), way_(std::move(way)) {
    for (int rank = 0; rank < ranks; ++rank) {
      event(rank, "pace_begins", Json{{"threads", 1}, {"cores", 64}, {"ranks_here", ranks}});
    }
  }

  void run(int seconds, const Step& step) {
    for (int second = 0; second < seconds; ++second) {
      now_ns_ += kSecond;
      for (int rank = 0; rank < ranks_; ++rank) pace(rank, step);
      beat_ += beats(step);
      if (second % 2 == 0) {
        for (int rank = 0; rank < ranks_; ++rank) links(rank);
      }
      Moment moment;
      moment.time_ns = now_ns_;
      for (int rank = 0; rank < ranks_; ++rank)
        moment.processes.push_back(process_of(rank, ranks_));
      cluster_->tick(moment);
    }
  }

  // An all_reduce of `values` floats in which all ranks are for `ms`.
  void all_reduce(int64_t values, double ms) {
    static const store::GroupInfo kWorld{"0", "default_pg", "gloo", {0, 1, 2, 3}, 1800};
    const int64_t left_ns = now_ns_ + static_cast<int64_t>(ms * 1e6);
    for (const int64_t when_ns : {int64_t{0}, left_ns}) {
      for (int rank = 0; rank < ranks_; ++rank) {
        store::CollectiveRow row;
        row.group = &kWorld;
        row.origin = origin_of(rank, now_ns_);
        row.sequence = calls_;
        row.operation = "all_reduce";
        row.sizes = {values};
        row.bytes = static_cast<uint64_t>(values) * 4;
        row.entered_ns = now_ns_;
        row.left_ns = when_ns;
        cluster_->on_collective(row);
      }
    }
    now_ns_ = left_ns;
    ++calls_;
  }

  [[nodiscard]] std::vector<rules::Finding> found() const {
    return found_.of("network_bottleneck");
  }

 private:
  static int beats(const Step& step) {
    return std::max(1, static_cast<int>(1000 / (step.work_ms + step.exchange_ms)));
  }

  void event(int rank, const std::string& kind, const Json& json) {
    store::EventRow row;
    row.origin = origin_of(rank, now_ns_, beat_);
    row.kind = kind;
    row.json = to_text(json);
    cluster_->on_event(row);
  }

  void pace(int rank, const Step& step) {
    Json json{{"first", beat_},
              {"wall_ms", 1000},
              {"cpu_ms", 1000 * step.work_ms / (step.work_ms + step.exchange_ms)},
              {"looks", 11}};
    json["delay_ms"] = json["cpu_ms"].get<double>() * step.delay_share;
    for (int beat = 0; beat < beats(step); ++beat) {
      json["self_us"].push_back(static_cast<int64_t>(step.work_ms * 1000));
      json["wait_us"].push_back(static_cast<int64_t>(step.exchange_ms * 1000));
    }
    event(rank, "pace", json);
    for (int other = 0; other < ranks_; ++other) {
      Sent& sent = sent_[{rank, other}];
      const double bytes = other == (rank + 1) % ranks_ ? step.bytes * beats(step) : 100;
      sent.bytes += bytes;
      sent.busy_ms += bytes / way_(rank, other).bytes_s * 1000;
    }
  }

  void links(int rank) {
    Json all = Json::array();
    for (int other = 0; other < ranks_; ++other) {
      if (other == rank) continue;
      const Sent& sent = sent_[{rank, other}];
      all.push_back({{"here", fmt::format("10.0.0.{}:{}", rank, 5000 + other)},
                     {"there", fmt::format("10.0.0.{}:{}", other, 5000 + rank)},
                     {"min_rtt_us", way_(rank, other).rtt_ms * 1000},
                     {"sent_bytes", sent.bytes},
                     {"busy_us", sent.busy_ms * 1000},
                     {"segments", sent.bytes / 1000},
                     {"sent_again", sent.bytes / 100'000}});
    }
    event(rank, "links", Json{{"links", all}});
  }

  struct Sent {
    double bytes = 0;
    double busy_ms = 0;
  };

  const int ranks_;
  const std::function<Way(int, int)> way_;
  Found found_;
  std::unique_ptr<Cluster> cluster_ = Cluster::create(found_);
  std::map<std::pair<int, int>, Sent> sent_;
  int64_t now_ns_ = 100 * kSecond;
  int beat_ = 0;
  int64_t calls_ = 0;
};

// `way` on all links of one rank.
std::function<Way(int, int)> of_rank(int rank, Way way) {
  return [=](int from, int to) { return from == rank || to == rank ? way : Way{}; };
}

std::function<Way(int, int)> everywhere(Way way) {
  return [=](int, int) { return way; };
}

bool says(const rules::Finding& finding, const std::string& word) {
  return finding.message.find(word) != std::string::npos;
}

TEST(network, a_rank_whose_link_is_narrow_is_named_with_its_rate) {
  Network network(4, of_rank(2, {0.05, 12e6}));
  network.run(20, {20, 90, 1e6, 0});
  const auto found = network.found();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 2);
  EXPECT_TRUE(says(found[0], "bandwidth"));
  EXPECT_EQ(found[0].message,
            "the network of rank 2 has too little bandwidth: with all ranks there, 90 of 110 ms of "
            "each step pass in exchanges");
  EXPECT_EQ(found[0].evidence[0],
            "its connections carry at most 96 Mbit/s, those between the other ranks 16.0 Gbit/s");
  EXPECT_EQ(found[0].evidence[1], "1.0 % of the packets had to be sent again");
}

TEST(network, a_rank_that_is_far_away_is_named_with_its_round_trip) {
  // GIVEN a link that is slow as well, since its messages wait for answers
  Network network(4, of_rank(1, {40, 8e6}));
  network.run(20, {20, 240, 1e6, 0});
  const auto found = network.found();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 1);
  EXPECT_TRUE(says(found[0], "latency"));
  EXPECT_EQ(found[0].evidence[0],
            "a packet and its answer take at least 40.00 ms, those between the other ranks 0.05 "
            "ms");
}

TEST(network, a_network_that_is_narrow_for_all_ranks_is_nobodys_link) {
  Network network(4, everywhere({0.05, 12e6}));
  network.run(20, {20, 90, 1e6, 0});
  ASSERT_EQ(network.found().size(), 1U);
  EXPECT_FALSE(network.found()[0].rank);
  EXPECT_TRUE(says(network.found()[0], "bandwidth"));
}

TEST(network, two_ranks_that_are_far_from_each_other_are_not_told_apart) {
  Network network(2, everywhere({30, 1e9}));
  network.run(20, {20, 60, 1e5, 0});
  ASSERT_EQ(network.found().size(), 1U);
  EXPECT_FALSE(network.found()[0].rank);
  EXPECT_TRUE(says(network.found()[0], "latency"));
}

TEST(network, a_long_exchange_over_a_good_network_is_not_its_fault) {
  // GIVEN ranks that have no core: their exchanges are slow, their connections are not
  Network network(4, everywhere({0.05, 1e9}));
  network.run(30, {20, 90, 1e6, 0});
  EXPECT_TRUE(network.found().empty());
}

TEST(network, ranks_without_cores_make_no_network_narrow) {
  Network network(4, everywhere({0.05, 12e6}));
  network.run(30, {20, 90, 1e6, 0.5});
  EXPECT_TRUE(network.found().empty());
}

TEST(network, a_link_that_costs_little_is_not_told) {
  Network network(4, of_rank(2, {0.05, 40e6}));
  network.run(30, {100, 25, 1e6, 0});
  EXPECT_TRUE(network.found().empty());
}

TEST(network, small_messages_whose_answers_come_late_are_no_narrow_link) {
  // GIVEN acknowledgements that are held back: the connection of one rank seems to carry 1 MB/s
  Network network(4, of_rank(3, {0.05, 1e6}));
  network.run(30, {10, 6, 10'000, 0});
  EXPECT_TRUE(network.found().empty());
}

TEST(network, calls_of_different_size_tell_bytes_from_round_trips) {
  // GIVEN a rank that is 8 ms away, over a link that is narrow too, and a job without an optimizer
  for (const bool is_narrow : {false, true}) {
    Network network(4, of_rank(0, {8, 12e6}));
    for (int i = 0; i < 8; ++i) {
      network.run(2, {10, 90, 1e6, 0});
      for (int call = 0; call < 4; ++call) {
        network.all_reduce(10, is_narrow ? 6 : 60);
        network.all_reduce(250'000, is_narrow ? 90 : 66);
      }
    }
    ASSERT_EQ(network.found().size(), 1U) << is_narrow;
    EXPECT_EQ(network.found()[0].rank, 0);
    EXPECT_TRUE(says(network.found()[0], is_narrow ? "bandwidth" : "latency"));
    EXPECT_EQ(network.found()[0].evidence[1],
              is_narrow ? "all_reduce takes 6.0 ms for 40 bytes and 90.0 ms for 1000000: 6.0 ms a "
                          "call and 84.0 ms a megabyte"
                        : "all_reduce takes 60.0 ms for 40 bytes and 66.0 ms for 1000000: 60.0 ms "
                          "a call and 6.0 ms a megabyte");
  }
}

TEST(network, sizes_that_hardly_differ_are_not_fitted) {
  std::deque<Exchange> exchanges;
  for (int i = 0; i < 40; ++i) exchanges.push_back({"all_reduce", 1e6 + 1000.0 * (i % 2), 5, i});
  EXPECT_FALSE(fit_over_sizes(exchanges));
  EXPECT_FALSE(fit_over_sizes({}));
}

TEST(network, events_that_lie_do_no_harm) {
  Found found;
  const auto cluster = Cluster::create(found);
  for (const char* json :
       {"", "[]", "{}", R"({"links":3})", R"({"links":[7,{},{"here":3,"busy_us":-1e300}]})",
        R"({"links":[{"here":"a","there":"b","sent_bytes":1e300,"min_rtt_us":"x"}]})"}) {
    for (int32_t rank : {0, 1}) {
      store::EventRow row;
      row.origin = origin_of(rank, kSecond);
      row.kind = "links";
      row.json = json;
      cluster->on_event(row);
    }
    cluster->tick({2 * kSecond, {process_of(0, 2), process_of(1, 2)}});
  }
  cluster->finish();
  EXPECT_TRUE(found.all().empty());
}

}  // namespace
}  // namespace paramedic::cluster
