// What a coordinator of parameter servers told, by events made by hand.

#include "cluster/closures.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "cluster/cluster.h"
#include "cluster/test_cluster.h"

namespace paramedic::cluster {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

// A chief, which is rank 0, and three workers.
class Coordinated {
 public:
  Coordinated() {
    for (int32_t rank = 0; rank < 4; ++rank) {
      moment_.processes.push_back(process_of(rank, 4));
    }
    pass(1);
  }

  // A second in which each worker did ten functions, that took so long in all.
  void second(const std::vector<double>& spent_ms) {
    Json workers = Json::array();
    for (size_t i = 0; i < spent_ms.size(); ++i) {
      workers.push_back(
          {{"rank", i + 1}, {"done", 10}, {"spent_ms", spent_ms[i]}, {"since_ns", 0}});
    }
    tell({{"workers", workers}, {"waits_since_ns", 0}});
    pass(1);
  }

  // The coordinator waits for what it has sent to `rank`.
  void wait_for(int32_t rank) {
    const Json work = {{"rank", rank}, {"done", 0}, {"spent_ms", 0}, {"since_ns", moment_.time_ns}};
    tell({{"workers", {work}}, {"waits_since_ns", moment_.time_ns}});
  }

  void pass(int seconds) {
    for (int i = 0; i < 2 * seconds; ++i) {
      moment_.time_ns += kSecond / 2;
      cluster_->tick(moment_);
    }
  }

  void stop(int32_t rank) { moment_.processes[static_cast<size_t>(rank)].state = 'T'; }
  [[nodiscard]] const Found& found() const { return found_; }

 private:
  void tell(const Json& json) {
    store::EventRow row;
    row.origin = origin_of(0, moment_.time_ns);
    row.kind = "closures";
    row.json = to_text(json);
    cluster_->on_event(row);
  }

  Found found_;
  std::unique_ptr<Cluster> cluster_ = Cluster::create(found_);
  Moment moment_;
};

TEST(closures, a_worker_that_takes_much_longer_for_a_function_is_named) {
  Coordinated job;
  for (int i = 0; i < 8; ++i) job.second({200, 900, 220});
  ASSERT_EQ(job.found().all().size(), 1U);
  const auto found = job.found().of("straggler");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 2);
  EXPECT_EQ(found[0].message,
            "rank 2 is a slow worker: a function that is sent to it takes 90 ms, one of the others "
            "21 ms; it does so much less of the work");
}

TEST(closures, workers_that_differ_a_little_are_healthy) {
  Coordinated job;
  for (int i = 0; i < 8; ++i) job.second({200, 300, 220});
  EXPECT_TRUE(job.found().all().empty());
}

TEST(closures, a_stopped_worker_for_which_the_coordinator_waits_is_named) {
  Coordinated job;
  job.wait_for(3);
  job.pass(20);  // one that runs may take long
  EXPECT_TRUE(job.found().all().empty());
  job.stop(3);
  job.pass(1);
  const auto found = job.found().of("hang_missing_rank");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 3);
  EXPECT_NE(found[0].message.find("is stopped"), std::string::npos);
}

TEST(closures, what_cannot_be_read_is_left_alone) {
  Closures closures;
  store::EventRow row;
  row.kind = "closures";
  for (const char* text :
       {"", "[]", "{", R"({"workers": 3})", R"({"workers": [3, {"rank": "x"}]})"}) {
    row.json = text;
    EXPECT_TRUE(closures.take(row));
  }
  EXPECT_FALSE(closures.slow_worker());
}

}  // namespace
}  // namespace paramedic::cluster
