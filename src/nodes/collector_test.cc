#include "nodes/collector.h"

#include <gtest/gtest.h>

#include "base/test_folder.h"
#include "nodes/courier.h"
#include "nodes/test_node.h"

namespace paramedic::nodes {
namespace {

constexpr int64_t kS = 1'000'000'000;
// The rows of these tests are of the past; a judge goes by what it is told, not by its own clock.
constexpr int64_t kStart = 1'700'000'000 * kS;

// Hands parcels over without a network, and can lose them.
class Handover : public Transport {
 public:
  explicit Handover(Collector*& collector, int64_t skew_ns = 0)
      : collector_(collector), skew_ns_(skew_ns) {}
  Result<Receipt> send(const Parcel& parcel) override {
    if (collector_ == nullptr) return io_error("nobody is there");
    auto receipt = collector_->take(decode_parcel(encode(parcel)).value());
    if (!receipt.ok()) return receipt;
    receipt->received_ns -= skew_ns_;
    receipt->answered_ns -= skew_ns_;
    return decode_receipt(encode(*receipt));
  }
  [[nodiscard]] int64_t clock_grain_ns() const override { return 0; }

 private:
  Collector*& collector_;
  const int64_t skew_ns_;
};

// Two nodes with two ranks each, and their collector, which can be away.
class TwoNodes {
 public:
  explicit TwoNodes(int64_t skew_ns = 0)
      : first(folder_.path() + "/a", 0, 2, 4), second(folder_.path() + "/b", 2, 2, 4, skew_ns) {
    start_collector();
    couriers_.push_back(make_courier(first.dir(), "a", 0));
    couriers_.push_back(make_courier(second.dir(), "b", skew_ns));
  }

  void start_collector() {
    own_ = std::make_unique<Collector>(
        folder_.path() + "/jobs",
        CollectorCallbacks{
            .finding = [this](const std::string&,
                              const rules::Finding& finding) { findings.push_back(finding); },
            .note =
                [this](const std::string& note) {
                  if (!note.starts_with("collecting ")) notes.push_back(note);
                }});
    collector = own_.get();
  }
  void stop_collector() {
    collector = nullptr;
    own_.reset();
  }

  // Everything that is on disk comes to the collector, which judges it.
  void deliver(bool only_first = false) {
    for (size_t i = 0; i < (only_first ? 1 : 2); ++i) {
      for (int step = 0; step < 4; ++step) (void)couriers_[i]->step();
    }
    for (int tick = 0; tick < 4 && collector != nullptr; ++tick) {
      now_ns_ += kS;
      collector->tick(now_ns_);
    }
  }

  // For so long only node a is heard of.
  void pass(int64_t seconds) {
    for (int64_t i = 0; i < seconds; ++i) {
      first.flush(kStart + ++last_s_ * kS);
      for (int step = 0; step < 4; ++step) (void)couriers_[0]->step();
      now_ns_ += kS;
      collector->tick(now_ns_);
    }
  }

  void step(int64_t seconds) {
    first.all_reduce(kStart + seconds * kS);
    second.all_reduce(kStart + seconds * kS);
    flush(seconds);
  }
  void flush(int64_t seconds) {
    first.flush(kStart + seconds * kS + kS / 2);
    second.flush(kStart + seconds * kS + kS / 2);
  }
  // From second 10 on rank 3 sleeps at line 77 and the others wait; it is second `seconds`.
  void hang(int64_t seconds) {
    for (int64_t at = 12; at <= seconds; at += 2) {
      second.stall(3, 77, kStart + 10 * kS, kStart + at * kS);
    }
    flush(seconds);
  }

  [[nodiscard]] std::string job_dir() const { return folder_.path() + "/jobs/job"; }
  [[nodiscard]] std::vector<rules::Finding> of(const std::string& id) const {
    std::vector<rules::Finding> some;
    for (const auto& finding : findings) {
      if (finding.id == id) some.push_back(finding);
    }
    return some;
  }

 private:
  std::unique_ptr<Courier> make_courier(const std::string& dir, const std::string& node,
                                        int64_t skew_ns) {
    return std::make_unique<Courier>(
        CourierOptions{dir, "job", node}, std::make_unique<Handover>(collector, skew_ns),
        CourierCallbacks{
            .finding = [this,
                        node](const Receipt::Finding& finding) { told[node].push_back(finding); },
            .note = [](const std::string&) {}});
  }

  TemporaryFolder folder_;
  int64_t now_ns_ = kS;
  int64_t last_s_ = 14;
  std::unique_ptr<Collector> own_;
  std::vector<std::unique_ptr<Courier>> couriers_;

 public:
  Collector* collector = nullptr;
  TestNode first;
  TestNode second;
  std::vector<rules::Finding> findings;
  std::vector<std::string> notes;  // of the collector, but for those of its beginning
  std::map<std::string, std::vector<Receipt::Finding>> told;  // by node
};

void expect_rank_3_at_77(const std::vector<rules::Finding>& found) {
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 3);
  ASSERT_TRUE(found[0].where);
  EXPECT_EQ(found[0].where->line, 77);
}

TEST(Collector, names_the_rank_of_one_node_for_which_those_of_the_other_wait) {
  TwoNodes job;
  for (int64_t second = 1; second < 10; ++second) job.step(second);
  job.first.enter_all_reduce(kStart + 10 * kS);
  job.second.enter_all_reduce(kStart + 10 * kS, 3);
  job.hang(12);
  job.deliver();
  EXPECT_TRUE(job.of("hang_missing_rank").empty());
  job.hang(20);
  job.deliver();
  expect_rank_3_at_77(job.of("hang_missing_rank"));
  // Both nodes are told with the next parcel.
  job.deliver();
  for (const char* node : {"a", "b"}) {
    ASSERT_FALSE(job.told[node].empty()) << node;
    EXPECT_EQ(job.told[node][0].json["id"], "hang_missing_rank");
    EXPECT_EQ(job.told[node][0].json["rank"], 3);
  }
}

TEST(Collector, says_nothing_while_the_rows_of_a_node_are_late) {
  TwoNodes job;
  for (int64_t second = 1; second < 10; ++second) job.step(second);
  job.deliver();
  // Node a has told up to second 40, node b is not heard of: its ranks only look as if they hung.
  for (int64_t second = 10; second < 20; ++second) job.step(second);
  job.first.enter_all_reduce(kStart + 20 * kS);
  job.flush(40);
  job.deliver(true);
  EXPECT_TRUE(job.findings.empty());
}

TEST(Collector, waits_half_a_minute_for_a_silent_node_and_then_judges_without_it) {
  TwoNodes job;
  for (int64_t second = 1; second < 10; ++second) job.step(second);
  job.deliver();
  // GIVEN that the others begin to wait for a rank of node b, and that node is cut off
  job.first.enter_all_reduce(kStart + 10 * kS);
  job.second.enter_all_reduce(kStart + 10 * kS, 3);
  job.hang(14);
  job.deliver();
  // THEN it takes 30 s of the collector's clock, and no less
  job.pass(25);
  EXPECT_TRUE(job.findings.empty());
  EXPECT_TRUE(job.notes.empty());
  job.pass(11);
  expect_rank_3_at_77(job.of("hang_missing_rank"));
  ASSERT_EQ(job.notes.size(), 1U);
  EXPECT_EQ(job.notes[0],
            "nothing has come from b for 30 s: the job is judged without its newest rows");
  // The run says so too, and nothing of node b is lost when it is back.
  const auto reader = store::RunReader::open(job.job_dir()).value();
  ASSERT_EQ(reader->info().not_captured.size(), 1U);
  EXPECT_EQ(reader->info().not_captured[0].first, "rows of b");
  job.flush(60);
  job.deliver();
  EXPECT_EQ(job.notes.back(), "b is heard of again");
  EXPECT_EQ(store::RunReader::open(job.job_dir() + "/nodes/b").value()->damage().size(), 0U);
}

TEST(Collector, takes_a_node_whose_agent_is_gone_for_silent_though_its_courier_goes_on) {
  TwoNodes job;
  for (int64_t second = 1; second < 10; ++second) job.step(second);
  job.deliver();
  for (int i = 0; i < 40; ++i) {
    // The courier sends the agent's last look again and again, with clocks measured anew.
    job.deliver();
  }
  EXPECT_EQ(job.notes.size(), 2U);
}

TEST(Collector, that_is_killed_goes_on_where_it_was_and_misses_nothing) {
  TwoNodes job;
  for (int64_t second = 1; second < 5; ++second) job.step(second);
  job.deliver();
  job.stop_collector();
  for (int64_t second = 5; second < 10; ++second) job.step(second);
  job.deliver();
  job.first.enter_all_reduce(kStart + 10 * kS);
  job.second.enter_all_reduce(kStart + 10 * kS, 3);
  job.hang(20);
  job.start_collector();
  job.deliver();
  job.deliver();
  expect_rank_3_at_77(job.of("hang_missing_rank"));
  // Every row of both nodes is there, once.
  const auto reader = store::RunReader::open(job.job_dir()).value();
  size_t calls = 0;
  ASSERT_TRUE(reader
                  ->read_collectives([&](const store::CollectiveRow&) {
                    ++calls;
                    return true;
                  })
                  .ok());
  EXPECT_EQ(calls, 9 * 4 + 3U);
  EXPECT_TRUE(reader->damage().empty());
}

TEST(Collector, puts_rows_of_a_node_whose_clock_is_wrong_in_their_place) {
  // GIVEN a node whose clock shows an hour more, so that its calls seem to come much later
  TwoNodes job(3600 * kS);
  for (int64_t second = 1; second < 10; ++second) {
    job.step(second);
    job.deliver();
    if (second == 3) break;
  }
  job.first.enter_all_reduce(kStart + 10 * kS);
  job.second.enter_all_reduce(kStart + 10 * kS, 3);
  job.hang(20);
  job.deliver();
  expect_rank_3_at_77(job.of("hang_missing_rank"));
  // THEN the run says by how much
  const auto reader = store::RunReader::open(job.job_dir()).value();
  double offset_ms = 0;
  ASSERT_TRUE(reader
                  ->read_events([&](const store::EventRow& row) {
                    if (row.kind != "node") return true;
                    const Json json = parse_json(row.json, "event").value();
                    if (json["node"] == "b") offset_ms = json["clock_offset_ms"].get<double>();
                    return true;
                  })
                  .ok());
  EXPECT_NEAR(offset_ms, 3600e3, 50);
}

TEST(Collector, writes_a_run_that_ends_with_the_last_node) {
  TwoNodes job;
  for (int64_t second = 1; second < 4; ++second) job.step(second);
  job.first.end(kStart + 5 * kS);
  job.deliver();
  EXPECT_FALSE(job.collector->is_idle());
  job.second.end(kStart + 6 * kS);
  job.deliver();
  EXPECT_TRUE(job.collector->is_idle());
  const auto reader = store::RunReader::open(job.job_dir()).value();
  EXPECT_EQ(reader->info().status, "finished");
  EXPECT_EQ(reader->info().world_size, 4);
  ASSERT_EQ(reader->info().ranks.size(), 4U);
  EXPECT_EQ(reader->info().ranks[2].host, "host-2");
  EXPECT_TRUE(job.findings.empty());
  // Another job of the same name would be mixed up with it.
  Parcel late;
  late.job = "job";
  late.node = "c";
  EXPECT_FALSE(job.collector->take(late).value().refused.empty());
}

TEST(Inbox, takes_each_byte_once_and_tells_what_it_has) {
  const TemporaryFolder folder;
  Inbox inbox(folder.path());
  Parcel parcel;
  parcel.job = "j";
  parcel.node = "n";
  const std::string file = "events/rank-0-000000.idx";
  parcel.pieces = {{file, 0, "0123"}};
  EXPECT_FALSE(inbox.take(parcel).value().has_sizes);
  // The receipt was lost: it comes again, with more.
  parcel.pieces = {{file, 0, "0123"}, {file, 2, "2345"}};
  EXPECT_FALSE(inbox.take(parcel).value().has_sizes);
  EXPECT_EQ(posix_file_system().read(folder.path() + "/j/nodes/n/" + file).value(), "012345");
  // A hole.
  parcel.pieces = {{file, 9, "9"}};
  parcel.look = "{}";
  const Receipt receipt = inbox.take(parcel).value();
  EXPECT_TRUE(receipt.has_sizes);
  EXPECT_EQ(receipt.sizes.at(file), 6U);
  EXPECT_FALSE(posix_file_system().exists(folder.path() + "/j/nodes/n/look.json"));
  // Another process knows it too.
  parcel.pieces.clear();
  parcel.asks_sizes = true;
  EXPECT_EQ(Inbox(folder.path()).take(parcel).value().sizes.at(file), 6U);
}

TEST(Inbox, is_bounded) {
  const TemporaryFolder folder;
  InboxLimits limits;
  limits.jobs_max = 2;
  limits.nodes_max = 2;
  limits.files_max = 2;
  limits.job_bytes_max = 10;
  Inbox inbox(folder.path(), limits);
  const auto refused = [&](const char* job, const char* node, const char* file, size_t bytes) {
    Parcel parcel;
    parcel.job = job;
    parcel.node = node;
    parcel.pieces = {{file, 0, std::string(bytes, 'x')}};
    return !inbox.take(parcel).value().refused.empty();
  };
  EXPECT_FALSE(refused("j", "a", "events/rank-0-000000.idx", 4));
  EXPECT_FALSE(refused("j", "a", "events/rank-1-000000.idx", 4));
  EXPECT_TRUE(refused("j", "a", "events/rank-2-000000.idx", 1));
  EXPECT_TRUE(refused("j", "b", "events/rank-0-000000.idx", 3));
  EXPECT_FALSE(refused("j", "b", "events/rank-0-000000.idx", 2));
  EXPECT_TRUE(refused("j", "c", "events/rank-0-000000.idx", 0));
  EXPECT_FALSE(refused("k", "a", "events/rank-0-000000.idx", 4));
  EXPECT_TRUE(refused("l", "a", "events/rank-0-000000.idx", 4));
}

}  // namespace
}  // namespace paramedic::nodes
