#include "store/step_times.h"

#include <gtest/gtest.h>

namespace paramedic::store {
namespace {

constexpr int64_t kMs = 1'000'000;

TEST(step_times, between_two_sampled_steps_the_others_are_taken_to_be_equally_long) {
  StepTimes times;
  times.add(0, {0, 1000 * kMs, 100});
  times.add(0, {10, 2000 * kMs, 100});
  EXPECT_EQ(times.step_at(0, 850 * kMs), -1);
  EXPECT_EQ(times.step_at(0, 950 * kMs), 0);
  EXPECT_EQ(times.step_at(0, 1050 * kMs), 1);
  EXPECT_EQ(times.step_at(0, 1950 * kMs), 10);
  EXPECT_EQ(times.step_at(0, 3000 * kMs), 11);
  EXPECT_EQ(times.step_at(5, 1050 * kMs), 1);
  EXPECT_EQ(times.end_of(0), 1000 * kMs);
  EXPECT_EQ(times.end_of(5), 1500 * kMs);
  EXPECT_FALSE(times.end_of(11).has_value());
}

TEST(step_times, steps_that_a_restarted_rank_tells_again_replace_the_old_ones) {
  StepTimes times;
  times.add(0, {5, 1000 * kMs, 100});
  times.add(0, {6, 1100 * kMs, 100});
  times.add(0, {5, 9000 * kMs, 100});
  EXPECT_EQ(times.end_of(5), 9000 * kMs);
  EXPECT_FALSE(times.end_of(6).has_value());
  EXPECT_EQ(StepTimes().step_at(0, kMs), -1);
}

}  // namespace
}  // namespace paramedic::store
