#include "probe/schedule.h"

#include <gtest/gtest.h>

#include <limits>

namespace paramedic::probe {
namespace {

using record::Kind;
using record::Mode;

constexpr uint32_t kWeight = 1U << static_cast<uint32_t>(Kind::kWeight);
constexpr uint32_t kGradient = 1U << static_cast<uint32_t>(Kind::kGradient);

class ScheduleTest : public testing::Test {
 protected:
  // A budget whose every sample of a gradient costs more than there is.
  void spend_all() {
    budget_.spent(Kind::kGradient, 1'000'000'000);
    budget_.step_done(1'000'000, 0, 0);
  }

  Plan plan_;
  Budget budget_{0.01};
};

TEST_F(ScheduleTest, kinds_are_due_at_the_steps_of_their_mode_only) {
  plan_ = parse_plan(
              "collection w kind=weight interval=10\n"
              "collection g kind=gradient mode=eval interval=3\n")
              .value();
  Schedule schedule(plan_, budget_);
  for (int64_t step = 0; step < 40; step++) {
    EXPECT_EQ(schedule.due(Mode::kTrain, step), step % 10 == 0 ? kWeight : 0) << step;
    EXPECT_EQ(schedule.due(Mode::kEval, step), step % 3 == 0 ? kGradient : 0) << step;
    EXPECT_EQ(schedule.due(Mode::kPredict, step), 0u);
  }
}

TEST_F(ScheduleTest, the_same_question_has_the_same_answer) {
  plan_ = parse_plan("collection w kind=weight interval=10").value();
  Schedule schedule(plan_, budget_);
  EXPECT_EQ(schedule.due(Mode::kTrain, 10), kWeight);
  EXPECT_EQ(schedule.due(Mode::kTrain, 10), kWeight);
  EXPECT_EQ(schedule.granted(Mode::kTrain, 10, Kind::kWeight), 1u);
  EXPECT_EQ(schedule.granted(Mode::kTrain, 11, Kind::kWeight), 0u);
  EXPECT_EQ(schedule.granted(Mode::kEval, 10, Kind::kWeight), 0u);
}

TEST_F(ScheduleTest, only_the_collections_that_fall_due_are_granted) {
  plan_ = parse_plan(
              "collection often kind=weight interval=2\n"
              "collection seldom kind=weight interval=4 what=raw\n")
              .value();
  Schedule schedule(plan_, budget_);
  schedule.due(Mode::kTrain, 2);
  EXPECT_EQ(schedule.granted(Mode::kTrain, 2, Kind::kWeight), 0b01u);
  schedule.due(Mode::kTrain, 4);
  EXPECT_EQ(schedule.granted(Mode::kTrain, 4, Kind::kWeight), 0b11u);
}

TEST_F(ScheduleTest, what_the_budget_does_not_cover_is_put_off_and_not_lost) {
  plan_ = parse_plan("collection g kind=gradient interval=10").value();
  Schedule schedule(plan_, budget_);
  EXPECT_EQ(schedule.due(Mode::kTrain, 0), kGradient);
  spend_all();
  EXPECT_EQ(schedule.due(Mode::kTrain, 10), 0u);
  EXPECT_EQ(schedule.due(Mode::kTrain, 11), 0u);
  budget_.step_done(400'000'000'000, 0, 0);
  EXPECT_EQ(schedule.due(Mode::kTrain, 12), kGradient);
  EXPECT_EQ(schedule.granted(Mode::kTrain, 12, Kind::kGradient), 1u);
  EXPECT_EQ(schedule.due(Mode::kTrain, 13), 0u);
}

TEST_F(ScheduleTest, a_step_that_the_plan_names_is_captured_whatever_is_left) {
  plan_ = parse_plan("collection g kind=gradient interval=10 steps=13").value();
  Schedule schedule(plan_, budget_);
  schedule.due(Mode::kTrain, 0);
  spend_all();
  EXPECT_EQ(schedule.due(Mode::kTrain, 10), 0u);
  EXPECT_EQ(schedule.due(Mode::kTrain, 13), kGradient);
}

TEST_F(ScheduleTest, the_next_step_to_ask_for_is_the_first_that_nothing_waits_for) {
  plan_ = parse_plan(
              "collection g kind=gradient interval=10 steps=27\n"
              "collection e kind=weight mode=eval interval=1\n")
              .value();
  Schedule schedule(plan_, budget_);
  schedule.due(Mode::kTrain, 0);
  EXPECT_EQ(schedule.next_due(Mode::kTrain, 0), 10);
  EXPECT_EQ(schedule.next_due(Mode::kTrain, 9), 10);
  spend_all();
  EXPECT_EQ(schedule.due(Mode::kTrain, 10), 0u);
  EXPECT_EQ(schedule.next_due(Mode::kTrain, 10), 27) << "one wait is enough, explicit steps apart";
  EXPECT_EQ(schedule.next_due(Mode::kTrain, 27), std::numeric_limits<int64_t>::max());
}

TEST_F(ScheduleTest, steps_that_begin_anew_are_a_new_fit) {
  plan_ = parse_plan("collection w kind=weight interval=10 end=50").value();
  Schedule schedule(plan_, budget_);
  for (int64_t step = 0; step < 100; step++) schedule.due(Mode::kTrain, step);
  EXPECT_EQ(schedule.due(Mode::kTrain, 0), kWeight);
  EXPECT_EQ(schedule.due(Mode::kTrain, 5), 0u);
  EXPECT_EQ(schedule.due(Mode::kTrain, 10), kWeight);
}

}  // namespace
}  // namespace paramedic::probe
