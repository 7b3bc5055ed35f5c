#include "stats/tensor_stats.h"

#include <algorithm>
#include <cmath>

namespace paramedic::stats {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double per_finite(const TensorStats& stats, double total) {
  const uint64_t finite = stats.finite();
  return finite == 0 ? kNan : total / static_cast<double>(finite);
}

}  // namespace

double TensorStats::mean() const { return per_finite(*this, sum); }

double TensorStats::mean_abs() const { return per_finite(*this, sum_abs); }

double TensorStats::variance() const {
  const double mean_square = per_finite(*this, sum_squares);
  if (!std::isfinite(mean_square)) return mean_square;
  const double average = mean();
  // Rounding can push the difference below zero where all elements are nearly equal.
  return std::max(0.0, mean_square - average * average);
}

double TensorStats::std() const { return std::sqrt(variance()); }

double TensorStats::rms() const { return std::sqrt(per_finite(*this, sum_squares)); }

double TensorStats::max_abs() const {
  return finite() == 0 ? kNan : std::max(std::fabs(min), std::fabs(max));
}

double TensorStats::l2() const { return std::sqrt(sum_squares); }

void merge(TensorStats& into, const TensorStats& other) {
  into.count += other.count;
  into.nan += other.nan;
  into.positive_inf += other.positive_inf;
  into.negative_inf += other.negative_inf;
  into.zero += other.zero;
  into.negative += other.negative;
  into.min = std::min(into.min, other.min);
  into.max = std::max(into.max, other.max);
  into.sum += other.sum;
  into.sum_abs += other.sum_abs;
  into.sum_squares += other.sum_squares;
}

TensorStats divided_by(TensorStats stats, double divisor) {
  stats.min /= divisor;
  stats.max /= divisor;
  stats.sum /= divisor;
  stats.sum_abs /= divisor;
  // Twice, since the square of a loss scale near the ends of the range would not fit.
  stats.sum_squares = stats.sum_squares / divisor / divisor;
  return stats;
}

void merge(Histogram& into, const Histogram& other) {
  for (uint32_t bin = 0; bin < Histogram::kBins; ++bin) into.bins[bin] += other.bins[bin];
}

}  // namespace paramedic::stats
