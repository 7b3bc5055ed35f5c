// Which rank gave the others a NaN, and when there is none to name.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "cluster/test_cluster.h"

namespace paramedic::cluster {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class NanJob : public testing::Test {
 protected:
  void SetUp() override { cluster_ = Cluster::create(found_); }

  void loss(int32_t rank, int64_t step, double value, const std::string& line = "train.py:30") {
    store::ScalarRow row;
    row.origin = origin_of(rank, step * kSecond, step);
    row.name = &*names_.insert("loss/" + line).first;
    row.value = value;
    cluster_->on_scalar(row);
  }
  void scalar(int32_t rank, const std::string& name) {
    store::ScalarRow row;
    row.origin = origin_of(rank, kSecond, 0);
    row.name = &*names_.insert(name).first;
    cluster_->on_scalar(row);
  }
  void origin(int32_t rank, int64_t step, const std::string& json) {
    store::EventRow row;
    row.origin = origin_of(rank, step * kSecond, step);
    row.kind = "nan_origin";
    row.json = json;
    cluster_->on_event(row);
  }
  void born(int32_t rank, int64_t step, const char* alarm, int32_t line) {
    origin(rank, step,
           fmt::format(R"({{"alarm": "{}", "where": {{"file": "train.py", "line": {},)"
                       R"( "function": "step"}}, "module": "net.1", "operation": "sqrt",)"
                       R"text( "expression": "h.sqrt()"}})text",
                       alarm, line));
  }
  void received(int32_t rank, int64_t step) {
    origin(rank, step, R"({"alarm": "gradient", "received": true, "module": null})");
  }
  void healthy(int64_t from, int64_t to, int32_t except = -1) {
    for (int64_t step = from; step < to; ++step) {
      for (int32_t rank = 0; rank < kRanks; ++rank) {
        if (rank != except) loss(rank, step, 1.0 + 0.1 * rank);
      }
    }
  }
  void tick(int32_t gone = -1) {
    Moment moment;
    moment.time_ns = 100 * kSecond;
    for (int32_t rank = 0; rank < kRanks; ++rank) {
      moment.processes.push_back(process_of(rank, kRanks));
      moment.processes.back().alive = rank != gone;
    }
    cluster_->tick(moment);
  }
  std::vector<rules::Finding> told() { return found_.of("nan_source_rank"); }

  static constexpr int32_t kRanks = 3;
  Found found_;
  std::unique_ptr<Cluster> cluster_;
  std::set<std::string> names_;
};

TEST_F(NanJob, the_rank_whose_loss_is_lost_one_step_before_the_others_is_named_with_its_line) {
  healthy(0, 5);
  loss(1, 5, kNan);
  born(1, 5, "loss", 12);
  healthy(5, 6, 1);
  tick();
  EXPECT_TRUE(told().empty());
  received(0, 5);
  received(2, 5);
  tick();
  ASSERT_EQ(told().size(), 1U);
  EXPECT_EQ(told()[0].severity, rules::Severity::kError);
  EXPECT_EQ(told()[0].rank, 1);
  EXPECT_EQ(told()[0].step, 5);
  EXPECT_EQ(told()[0].where->line, 12);
  EXPECT_EQ(told()[0].tensor, "net.1");
  EXPECT_EQ(told()[0].message,
            "the first loss that is not finite is that of rank 1 at step 5, before ranks exchange "
            "anything: sqrt in `h.sqrt()` in module net.1");
}

TEST_F(NanJob, losses_alone_name_the_rank) {
  store::ModelRow row;
  row.origin = origin_of(1, kSecond);
  row.kind = "loss";
  row.name = "loss/train.py:30";
  row.file = "train.py";
  row.line = 30;
  cluster_->on_model(row);
  healthy(0, 5);
  loss(1, 5, kNan);
  healthy(5, 6, 1);
  for (int32_t rank = 0; rank < kRanks; ++rank) loss(rank, 6, kNan);
  tick();
  ASSERT_EQ(told().size(), 1U);
  EXPECT_EQ(told()[0].rank, 1);
  EXPECT_EQ(told()[0].where->line, 30);
}

TEST_F(NanJob, a_gradient_under_a_finite_loss_is_that_of_the_rank_that_meets_it_again) {
  healthy(0, 6);
  received(0, 5);
  born(2, 5, "gradient", 17);
  received(1, 5);
  tick();
  EXPECT_TRUE(told().empty());  // the step may have been skipped
  for (int32_t rank = 0; rank < kRanks; ++rank) loss(rank, 6, kNan);
  tick();
  ASSERT_EQ(told().size(), 1U);
  EXPECT_EQ(told()[0].rank, 2);
  EXPECT_EQ(told()[0].step, 5);
  EXPECT_EQ(told()[0].kind, "gradient");
  EXPECT_EQ(told()[0].where->line, 17);
}

TEST_F(NanJob, a_value_that_all_ranks_gather_in_their_forward_is_that_of_the_rank_that_made_it) {
  healthy(0, 5);
  // GIVEN losses that are lost everywhere in one step, and searches that find nothing at first
  for (int32_t rank = 0; rank < kRanks; ++rank) loss(rank, 5, kNan);
  for (const int32_t rank : {0, 2}) {
    origin(rank, 5, R"({"alarm": "loss", "certain": false, "module": null})");
  }
  born(1, 5, "loss", 21);
  for (const int32_t rank : {0, 2}) received(rank, 5);
  tick();
  ASSERT_EQ(told().size(), 1U);
  EXPECT_EQ(told()[0].rank, 1);
  EXPECT_EQ(told()[0].where->line, 21);
}

TEST_F(NanJob, a_rank_that_leaves_with_its_lost_loss_is_named) {
  healthy(0, 5);
  loss(0, 5, kNan);
  healthy(5, 6, 0);
  tick();
  EXPECT_TRUE(told().empty());
  tick(0);
  ASSERT_EQ(told().size(), 1U);
  EXPECT_EQ(told()[0].rank, 0);
}

TEST_F(NanJob, several_ranks_at_once_are_told_without_blaming_one) {
  healthy(0, 5);
  loss(0, 5, kNan);
  loss(2, 5, kNan);
  loss(1, 5, 1.0);
  loss(1, 6, kNan);
  tick();
  ASSERT_EQ(told().size(), 1U);
  EXPECT_FALSE(told()[0].rank);
}

TEST_F(NanJob, of_losses_lost_on_all_ranks_in_the_same_step_there_is_none) {
  healthy(0, 5);
  for (int64_t step = 5; step < 9; ++step) {
    for (int32_t rank = 0; rank < kRanks; ++rank) loss(rank, step, kNan);
    tick();
  }
  cluster_->finish();
  EXPECT_TRUE(told().empty());
}

TEST_F(NanJob, of_a_loss_that_recovers_there_is_none) {
  healthy(0, 5);
  loss(1, 5, kNan);
  healthy(5, 6, 1);
  healthy(6, 20);
  tick();
  cluster_->finish();
  EXPECT_TRUE(told().empty());
}

TEST_F(NanJob, of_ranks_that_exchange_nothing_there_is_none) {
  healthy(0, 5);
  for (int64_t step = 5; step < 30; ++step) {
    loss(1, step, kNan);
    healthy(step, step + 1, 1);
    tick();
  }
  cluster_->finish();
  EXPECT_TRUE(told().empty());
}

TEST_F(NanJob, of_an_overflow_that_a_scaler_skips_there_is_none) {
  for (int32_t rank = 0; rank < kRanks; ++rank) scalar(rank, "amp_scale");
  healthy(0, 5);
  received(0, 4);
  born(1, 4, "gradient", 17);
  received(2, 4);
  healthy(5, 20);
  tick();
  cluster_->finish();
  EXPECT_TRUE(told().empty());
}

}  // namespace
}  // namespace paramedic::cluster
