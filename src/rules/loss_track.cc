#include "rules/loss_track.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/median.h"

namespace paramedic::rules {

namespace {

// The mean of n normal values differs from the truth by more than 4 standard errors once in
// 16,000 trials: rare enough for a test that is repeated at every step.
constexpr double kErrorsMin = 4;
// The median of |x - y| of two normal values is 0.954 standard deviations of one.
constexpr double kMedianDifference = 0.954;

}  // namespace

void LossTrack::add(int64_t step, double value) {
  if (first_step_ < 0) first_step_ = step;
  if (step != step_) {
    close_step();
    step_ = step;
  }
  ++calls_;
  sum_ += value;
}

int LossTrack::non_finite_steps() const {
  const bool open_is_lost = calls_ > 0 && !std::isfinite(sum_);
  if (calls_ > 0 && !open_is_lost) return 0;
  return lost_steps_ + (open_is_lost ? 1 : 0);
}

std::optional<double> LossTrack::newest() const {
  if (calls_ == 0) return std::nullopt;
  return sum_ / static_cast<double>(calls_);
}

double LossTrack::head_level() const { return median_of(head_); }

void LossTrack::close_step() {
  if (calls_ == 0) return;
  const double value = sum_ / static_cast<double>(calls_);
  calls_ = 0;
  sum_ = 0;
  if (!std::isfinite(value)) {
    ++lost_steps_;
    return;
  }
  lost_steps_ = 0;
  ++steps_;
  if (head_.size() < kHeadSteps) head_.push_back(value);
  const double start = head_.front();
  const bool diverged = start > kDivergedStartMin && value > kDivergedFactor * start;
  diverged_steps_ = diverged ? diverged_steps_ + 1 : 0;
  if (bins_.empty() || bins_.back().steps == bin_steps_) {
    if (bins_.size() == kBinsMax) merge_pairs();
    bins_.push_back({});
  }
  Bin& bin = bins_.back();
  ++bin.steps;
  bin.mean += (value - bin.mean) / static_cast<double>(bin.steps);
}

void LossTrack::merge_pairs() {
  for (size_t i = 0; i < bins_.size() / 2; ++i) {
    const Bin& a = bins_[2 * i];
    const Bin& b = bins_[2 * i + 1];
    const int64_t steps = a.steps + b.steps;
    const double mean =
        a.mean + (b.mean - a.mean) * static_cast<double>(b.steps) / static_cast<double>(steps);
    bins_[i] = {steps, mean};
  }
  bins_.resize(bins_.size() / 2);
  bin_steps_ *= 2;
}

const LossVerdict& LossTrack::verdict() const {
  if (judged_steps_ != steps_) {
    verdict_ = judge();
    judged_steps_ = steps_;
  }
  return verdict_;
}

LossVerdict LossTrack::judge() const {
  LossVerdict verdict;
  verdict.steps = steps_;
  if (steps_ < kStepsMin) return verdict;
  const auto count = static_cast<std::ptrdiff_t>(bins_.size());
  std::vector<double> means;
  std::vector<double> differences;
  for (size_t i = 0; i < bins_.size(); ++i) {
    means.push_back(bins_[i].mean);
    if (i > 0) differences.push_back(std::abs(bins_[i].mean - bins_[i - 1].mean));
  }
  const auto part = [&](std::ptrdiff_t from, std::ptrdiff_t to) {
    return median_of({means.begin() + from, means.begin() + to});
  };
  verdict.start = head_.front();
  verdict.first = head_level();
  verdict.middle = part(count / 4, count / 2);
  verdict.recent = part(count * 3 / 4, count);
  const double bin_noise = median_of(std::move(differences)) / kMedianDifference;
  verdict.noise = bin_noise * std::sqrt(static_cast<double>(bin_steps_));
  const double scale = std::max(std::abs(verdict.first), std::abs(verdict.recent));
  const auto [low, high] = std::minmax_element(means.begin(), means.end());
  if (scale == 0) {
    verdict.trend = Trend::kFlat;
    return verdict;
  }
  verdict.fallen = (verdict.first - verdict.recent) / scale;
  verdict.error = std::sqrt(verdict.noise * verdict.noise / static_cast<double>(head_.size()) +
                            bin_noise * bin_noise / std::max(1.0, static_cast<double>(count) / 4));
  const double change = std::max(kChangeMin * scale, kErrorsMin * verdict.error);
  if (verdict.first - verdict.recent > change) {
    verdict.trend = Trend::kFalling;
  } else if (*low < 0 && *high > 0) {
    verdict.trend = Trend::kUnknown;
  } else if (verdict.recent - verdict.first > change) {
    verdict.trend = Trend::kRising;
  } else if (kErrorsMin * verdict.error < 0.5 * scale) {
    verdict.trend = Trend::kFlat;
  }
  return verdict;
}

}  // namespace paramedic::rules
