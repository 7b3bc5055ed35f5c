#include "rules/facts.h"

#include <gtest/gtest.h>

#include <cmath>

#include "rules/golden_case.h"

namespace paramedic::rules {
namespace {

class FactsSink : public store::RowSink {
 public:
  void on_stats(const store::StatsRow& row) override { facts.on_stats(row); }
  void on_scalar(const store::ScalarRow& row) override { facts.on_scalar(row); }
  void on_event(const store::EventRow& row) override { facts.on_event(row); }
  void on_model(const store::ModelRow& row) override { facts.on_model(row); }
  Facts facts{0};
};

constexpr const char* kModel =
    "module net.0 Linear train.py:19 order=0\n"
    "module net.1 ReLU train.py:19 order=1\n"
    "module net.2 Linear train.py:20 order=2\n"
    "parameter net.0.weight 64x64\n"
    "parameter net.2.weight 10x64\n"
    "optimizer SGD momentum=0.9 params=net.0.weight,net.2.weight\n"
    "loss CrossEntropyLoss train.py:35\n";

// Keeps the player, whose names the rows point to.
struct Played {
  CasePlayer player;
  FactsSink sink;
  explicit Played(const std::string& text) {
    const Status status = player.play(kModel + text, sink);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  const Facts* operator->() const { return &sink.facts; }
};

TEST(facts, know_the_model) {
  const Played facts("");
  EXPECT_EQ(facts->module_name_of("net.0.weight"), "net.0");
  EXPECT_EQ(facts->made("net.2")->line, 20);
  EXPECT_TRUE(facts->weights_follow("net.1"));
  EXPECT_FALSE(facts->weights_follow("net.2"));
  EXPECT_FALSE(facts->weights_follow("unknown"));
  EXPECT_EQ(facts->optimizer_of("net.0.weight"), 0);
  EXPECT_EQ(facts->optimizer_of("other"), -1);
  EXPECT_EQ(facts->optimizers()[0].momentum, 0.9);
}

TEST(facts, put_a_module_that_is_never_called_where_the_one_around_it_is) {
  const Played facts(
      "module net MultiheadAttention train.py:18 order=0\n"
      "module net.out_proj Linear train.py:18 order=9 called=no\n"
      "parameter net.out_proj.weight 32x32\n");
  EXPECT_EQ(facts->module("net.out_proj")->order, 0);
  EXPECT_FALSE(facts->weights_follow("net.2"));
}

TEST(facts, take_the_chance_level_from_the_last_layer) {
  const Played facts("step 1\nscalar loss/train.py:35 2.3\n");
  const LossFact* loss = facts->only_loss();
  ASSERT_NE(loss, nullptr);
  EXPECT_NEAR(*facts->chance_level(*loss), std::log(10.0), 1e-12);
}

TEST(facts, recognise_losses_by_class_or_by_the_name_of_their_gradient) {
  EXPECT_EQ(loss_kind("CrossEntropyLoss"), LossKind::kClasses);
  EXPECT_EQ(loss_kind("NllLossBackward0"), LossKind::kClasses);
  EXPECT_EQ(loss_kind("cross_entropy"), LossKind::kClasses);
  EXPECT_EQ(loss_kind("BCEWithLogitsLoss"), LossKind::kBinary);
  EXPECT_EQ(loss_kind("binary_cross_entropy"), LossKind::kBinary);
  EXPECT_EQ(loss_kind("SmoothL1Loss"), LossKind::kDistance);
  EXPECT_EQ(loss_kind("AddBackward0"), LossKind::kOther);
}

TEST(facts, say_whether_the_fit_learns) {
  const auto learning = [](const char* rows) { return Played(rows)->learning(); };
  EXPECT_EQ(learning("repeat 0 40\nscalar loss/train.py:35 2.3\nend\n"), Learning::kUnknown);
  EXPECT_EQ(learning("repeat 0 99\nscalar loss/train.py:35 2.3->0.5 noise=0.05\nend\n"),
            Learning::kLearns);
  EXPECT_EQ(learning("repeat 0 99\nscalar loss/train.py:35 2.31 noise=0.01\nend\n"),
            Learning::kStalled);
  EXPECT_EQ(learning("repeat 0 99\nscalar loss/train.py:35 0.2 noise=0.01\nend\n"),
            Learning::kUnknown);
  EXPECT_EQ(learning("repeat 0 99\nscalar loss/train.py:35 2.3->90 noise=0.01\nend\n"),
            Learning::kWorse);
}

TEST(facts, have_no_level_for_losses_other_than_the_mean_over_classes) {
  const auto learning = [](const std::string& cls, const char* rows) {
    return Played("loss " + cls + " train.py:35\n" + rows)->learning();
  };
  const char* rises = "repeat 0 99\nscalar loss/train.py:35 0.1->4 noise=0.01\nend\n";
  EXPECT_EQ(learning("SmoothL1Loss", rises), Learning::kRises);
  const char* doubles = "repeat 0 99\nscalar loss/train.py:35 0.6->1.2 noise=0.01\nend\n";
  EXPECT_EQ(learning("SmoothL1Loss", doubles), Learning::kUnknown);
  const char* sum = "repeat 0 99\nscalar loss/train.py:35 70->500 noise=0.01\nend\n";
  EXPECT_EQ(learning("CrossEntropyLoss", sum), Learning::kRises);
}

TEST(facts, do_not_expect_a_loss_to_fall_that_goes_on_from_saved_weights) {
  const std::string rows =
      "loss MSELoss train.py:35\nrepeat 0 99\nscalar loss/train.py:35 0.8 noise=0.001\nend\n";
  EXPECT_EQ(Played(rows)->learning(), Learning::kStalled);
  const Played inner("module net.0 Linear train.py:19 order=0 loaded=yes\n" + rows);
  EXPECT_FALSE(inner->trained_before());
  EXPECT_EQ(inner->learning(), Learning::kStalled);
  const Played whole("module net Sequential train.py:18 order=3 loaded=yes\n" + rows);
  EXPECT_TRUE(whole->trained_before());
  EXPECT_EQ(whole->learning(), Learning::kUnknown);
}

TEST(facts, have_no_opinion_while_the_learning_rate_rises) {
  const Played facts(
      "repeat 0 99\nscalar loss/train.py:35 2.31 noise=0.01\n"
      "scalar learning_rate/SGD/0 0->0.1\nend\n");
  EXPECT_EQ(facts->learning(), Learning::kUnknown);
}

TEST(facts, have_no_opinion_on_losses_that_take_turns) {
  const Played facts(
      "repeat 0 99\nscalar loss/train.py:35 2.31 noise=0.01\n"
      "scalar loss/train.py:40 2.31 noise=0.01\nend\n");
  EXPECT_EQ(facts->only_loss(), nullptr);
  EXPECT_EQ(facts->learning(), Learning::kUnknown);
}

}  // namespace
}  // namespace paramedic::rules
