#include "rules/loss_track.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace paramedic::rules {
namespace {

template <typename F>
LossTrack track_of(int steps, F loss) {
  LossTrack track;
  for (int step = 0; step < steps; ++step) track.add(step, loss(step));
  track.add(steps, loss(steps));
  return track;
}

TEST(loss_track, claims_nothing_of_a_short_run) {
  const LossTrack track = track_of(50, [](int) { return 2.0; });
  EXPECT_EQ(track.verdict().trend, Trend::kUnknown);
}

TEST(loss_track, tells_falling_flat_and_rising_apart) {
  std::mt19937 random(1);
  std::normal_distribution<double> noise(0, 0.05);
  const auto trend = [&](double to) {
    return track_of(1000, [&](int step) { return 2 + (to - 2) * step / 1000 + noise(random); })
        .verdict()
        .trend;
  };
  EXPECT_EQ(trend(1.0), Trend::kFalling);
  EXPECT_EQ(trend(2.0), Trend::kFlat);
  EXPECT_EQ(trend(3.0), Trend::kRising);
}

TEST(loss_track, has_no_opinion_on_a_loss_of_both_signs) {
  std::mt19937 random(1);
  std::normal_distribution<double> noise(0, 1);
  const LossTrack track = track_of(1000, [&](int) { return noise(random); });
  EXPECT_EQ(track.verdict().trend, Trend::kUnknown);
}

// GIVEN pure noise around a level, many times
// WHEN each is judged
// THEN hardly any is called rising or falling
TEST(loss_track, is_not_fooled_by_noise) {
  std::mt19937 random(7);
  int wrong = 0;
  for (int run = 0; run < 300; ++run) {
    std::normal_distribution<double> noise(2, 0.4);
    const LossTrack track = track_of(400, [&](int) { return noise(random); });
    wrong += track.verdict().trend == Trend::kRising || track.verdict().trend == Trend::kFalling;
  }
  EXPECT_LE(wrong, 6);
}

TEST(loss_track, sees_a_run_of_any_length_in_bounded_memory) {
  const LossTrack track =
      track_of(200'000, [](int step) { return 0.1 + 2 * std::exp(-step / 20'000.0); });
  const LossVerdict& verdict = track.verdict();
  EXPECT_EQ(verdict.steps, 200'000);
  EXPECT_NEAR(verdict.first, 2.1, 0.01);
  EXPECT_NEAR(verdict.recent, 0.1, 0.01);
  EXPECT_EQ(verdict.trend, Trend::kFalling);
}

TEST(loss_track, averages_the_calls_of_one_step) {
  LossTrack track;
  track.add(0, 1);
  track.add(0, 3);
  EXPECT_EQ(track.newest(), 2.0);
}

TEST(loss_track, counts_steps_without_a_finite_loss) {
  LossTrack track;
  track.add(0, 1);
  track.add(1, std::numeric_limits<double>::infinity());
  track.add(1, 1);
  EXPECT_EQ(track.non_finite_steps(), 1);
  track.add(2, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(track.non_finite_steps(), 2);
  track.add(3, 1);
  EXPECT_EQ(track.non_finite_steps(), 0);
}

TEST(loss_track, counts_steps_out_of_all_measure) {
  LossTrack track;
  track.add(0, 2);
  for (int step = 1; step <= 3; ++step) track.add(step, 1e9);
  track.add(4, 1e9);
  EXPECT_EQ(track.diverged_steps(), 3);
}

}  // namespace
}  // namespace paramedic::rules
