#include "nodes/bucket.h"

#include <gtest/gtest.h>

#include <map>

#include "base/file.h"
#include "base/test_folder.h"
#include "nodes/bucket_reader.h"
#include "nodes/bucket_transport.h"
#include "nodes/collector.h"
#include "nodes/courier.h"
#include "nodes/test_node.h"

namespace paramedic::nodes {
namespace {

constexpr int64_t kS = 1'000'000'000;
constexpr int64_t kStart = 1'700'000'000 * kS;

using Objects = std::map<std::string, std::string>;

// Objects in memory, which can be away. All that were opened share them.
class TestBucket : public Bucket {
 public:
  explicit TestBucket(Objects& objects, bool& is_away) : objects_(objects), is_away_(is_away) {}
  Status put(const std::string& name, std::string_view bytes) override {
    if (is_away_) return io_error("nobody is there");
    objects_[name] = bytes;
    return {};
  }
  Result<std::string> get(const std::string& name) override {
    if (is_away_) return io_error("nobody is there");
    const auto known = objects_.find(name);
    if (known == objects_.end()) return not_found(name);
    return known->second;
  }
  Status remove(const std::string& name) override {
    if (is_away_) return io_error("nobody is there");
    objects_.erase(name);
    return {};
  }
  Result<std::vector<std::string>> list(const std::string& folder) override {
    if (is_away_) return io_error("nobody is there");
    std::vector<std::string> names;
    for (const auto& [name, bytes] : objects_) {
      if (folder.empty() || name.starts_with(folder + "/")) names.push_back(name);
    }
    return names;
  }

 private:
  Objects& objects_;
  bool& is_away_;
};

// Two nodes of one rank each, a bucket, and a collector that only knows the bucket.
class BucketJob {
 public:
  BucketJob() : first(folder_.path() + "/a", 0, 1, 2), second(folder_.path() + "/b", 1, 1, 2) {
    start_couriers();
    start_collector(folder_.path() + "/jobs");
  }

  void start_couriers() {
    couriers_.clear();
    for (const auto* node : {&first, &second}) {
      couriers_.push_back(std::make_unique<Courier>(
          CourierOptions{node->dir(), "job", node == &first ? "a" : "b"},
          make_bucket_transport(open()),
          CourierCallbacks{
              .finding = [this](const Receipt::Finding& finding) { told.push_back(finding); },
              .note = [](const std::string&) {}}));
    }
  }
  void start_collector(const std::string& dir) {
    collector_.reset();
    jobs_ = dir;
    collector_ = std::make_unique<Collector>(
        dir, CollectorCallbacks{.finding = [](const std::string&, const rules::Finding&) {},
                                .note = [](const std::string&) {}});
    reader_ = std::make_unique<BucketReader>(
        open(), [this](const Parcel& parcel) { return collector_->take(parcel); });
  }

  void send() {
    for (int step = 0; step < 4; ++step) {
      for (const auto& courier : couriers_) {
        if (!courier->is_done()) (void)courier->step();
      }
    }
  }
  Status collect() {
    const Status status = reader_->read();
    for (int tick = 0; tick < 4; ++tick) collector_->tick(now_ns_ += kS);
    return status;
  }
  [[nodiscard]] bool are_done() const { return couriers_[0]->is_done() && couriers_[1]->is_done(); }
  [[nodiscard]] size_t calls() const {
    size_t calls = 0;
    const auto reader = store::RunReader::open(jobs_ + "/job").value();
    EXPECT_TRUE(reader
                    ->read_collectives([&](const store::CollectiveRow&) {
                      ++calls;
                      return true;
                    })
                    .ok());
    EXPECT_TRUE(reader->damage().empty());
    return calls;
  }
  void step(int64_t at) {
    for (TestNode* node : {&first, &second}) {
      node->all_reduce(kStart + at * kS);
      node->flush(kStart + at * kS + kS / 2);
    }
  }
  [[nodiscard]] const std::string& folder() const { return folder_.path(); }

 private:
  std::unique_ptr<Bucket> open() { return std::make_unique<TestBucket>(objects, is_away); }

  TemporaryFolder folder_;
  std::string jobs_;
  int64_t now_ns_ = kS;
  std::vector<std::unique_ptr<Courier>> couriers_;
  std::unique_ptr<Collector> collector_;
  std::unique_ptr<BucketReader> reader_;

 public:
  Objects objects;
  bool is_away = false;
  TestNode first;
  TestNode second;
  std::vector<Receipt::Finding> told;
};

TEST(Bucket, brings_a_job_to_its_end_and_is_empty_then_but_for_the_answers) {
  BucketJob job;
  for (int64_t second = 1; second < 6; ++second) {
    job.step(second);
    job.send();
    ASSERT_TRUE(job.collect().ok());
  }
  job.first.end(kStart + 7 * kS);
  job.second.end(kStart + 7 * kS);
  for (int i = 0; i < 4 && !job.are_done(); ++i) {
    job.send();
    ASSERT_TRUE(job.collect().ok());
  }
  EXPECT_TRUE(job.are_done());
  EXPECT_EQ(job.calls(), 2 * 5U);
  ASSERT_TRUE(job.collect().ok());
  ASSERT_EQ(job.objects.size(), 2U);
  EXPECT_EQ(job.objects.begin()->first, "job/a/receipt");
}

TEST(Bucket, needs_no_collector_while_the_job_runs) {
  BucketJob job;
  for (int64_t second = 1; second < 6; ++second) {
    job.step(second);
    job.send();
  }
  EXPECT_GE(job.objects.size(), 10U);
  ASSERT_TRUE(job.collect().ok());
  EXPECT_EQ(job.calls(), 2 * 5U);
}

TEST(Bucket, that_was_away_costs_time_and_nothing_else) {
  BucketJob job;
  for (int64_t second = 1; second < 10; ++second) {
    job.is_away = second > 3 && second < 7;
    job.step(second);
    job.send();
    EXPECT_EQ(job.collect().ok(), !job.is_away);
  }
  job.send();
  ASSERT_TRUE(job.collect().ok());
  EXPECT_EQ(job.calls(), 2 * 9U);
}

TEST(Bucket, tells_the_nodes_of_a_hang_once) {
  BucketJob job;
  for (int64_t second = 1; second < 6; ++second) job.step(second);
  job.first.enter_all_reduce(kStart + 6 * kS);
  for (int64_t at = 8; at < 20; at += 2) job.second.stall(1, 77, kStart + 6 * kS, kStart + at * kS);
  job.first.flush(kStart + 20 * kS);
  job.second.flush(kStart + 20 * kS);
  for (int i = 0; i < 4; ++i) {
    job.send();
    ASSERT_TRUE(job.collect().ok());
  }
  ASSERT_EQ(job.told.size(), 2U);
  EXPECT_EQ(job.told[0].json["id"], "hang_missing_rank");
  EXPECT_EQ(job.told[1].json["rank"], 1);
}

TEST(Bucket, couriers_that_start_anew_go_on_behind_what_lies_there) {
  BucketJob job;
  job.step(1);
  job.send();
  job.start_couriers();
  job.step(2);
  job.send();
  ASSERT_TRUE(job.collect().ok());
  job.start_couriers();
  job.step(3);
  job.send();
  ASSERT_TRUE(job.collect().ok());
  EXPECT_EQ(job.calls(), 2 * 3U);
}

TEST(Bucket, a_collector_that_has_lost_its_folder_gets_everything_again) {
  BucketJob job;
  job.step(1);
  job.send();
  ASSERT_TRUE(job.collect().ok());
  job.start_collector(job.folder() + "/other-jobs");
  for (int64_t second = 2; second < 6; ++second) {
    job.step(second);
    job.send();
    ASSERT_TRUE(job.collect().ok());
  }
  EXPECT_EQ(job.calls(), 2 * 5U);
}

TEST(Bucket, what_is_no_parcel_is_passed_over_or_taken_away) {
  BucketJob job;
  job.objects["job/a/parcels/00000000007"] = "no parcel";
  job.objects["job/a/parcels/7"] = "of somebody else";
  job.objects["readme"] = "of somebody else";
  job.objects[parcel_object("job", "x/../..", 1)] = "an attack";
  ASSERT_TRUE(job.collect().ok());
  EXPECT_EQ(job.objects.size(), 3U);
  job.step(1);
  job.send();
  ASSERT_TRUE(job.collect().ok());
  EXPECT_EQ(job.calls(), 2U);
}

}  // namespace
}  // namespace paramedic::nodes
