#include "stats/tensor_stats.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "stats/differential.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace paramedic::stats {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

TensorStats stats_of(const std::vector<double>& values, Histogram* histogram = nullptr) {
  return compute_stats(dense_view(values.data(), DType::kFloat64, std::ssize(values)), histogram);
}

// Integers up to 2^20, so that all sums and squares are exact in any order.
std::vector<double> random_integers(std::mt19937_64& random, size_t count) {
  std::vector<double> values(count);
  for (double& x : values) {
    x = static_cast<double>(random() % 2'000'001) - 1e6;
    if (random() % 20 == 0) x = random() % 2 == 0 ? kInf : std::nan("");
    if (random() % 20 == 0) x = 0;
  }
  return values;
}

void expect_same(const TensorStats& a, const TensorStats& b) {
  EXPECT_EQ(a.count, b.count);
  EXPECT_EQ(a.nan, b.nan);
  EXPECT_EQ(a.positive_inf, b.positive_inf);
  EXPECT_EQ(a.negative_inf, b.negative_inf);
  EXPECT_EQ(a.zero, b.zero);
  EXPECT_EQ(a.negative, b.negative);
  EXPECT_EQ(a.min, b.min);
  EXPECT_EQ(a.max, b.max);
  EXPECT_EQ(a.sum, b.sum);
  EXPECT_EQ(a.sum_abs, b.sum_abs);
  EXPECT_EQ(a.sum_squares, b.sum_squares);
}

TEST(tensor_stats, of_a_few_numbers) {
  const TensorStats stats = stats_of({-3, 0, 1, 6, kInf, std::nan("")});
  EXPECT_EQ(stats.count, 6U);
  EXPECT_EQ(stats.finite(), 4U);
  EXPECT_EQ(stats.non_finite(), 2U);
  EXPECT_EQ(stats.zero, 1U);
  EXPECT_EQ(stats.negative, 1U);
  EXPECT_EQ(stats.min, -3);
  EXPECT_EQ(stats.max, 6);
  EXPECT_EQ(stats.max_abs(), 6);
  EXPECT_EQ(stats.mean(), 1);
  EXPECT_EQ(stats.mean_abs(), 2.5);
  EXPECT_EQ(stats.variance(), 46.0 / 4 - 1);
  EXPECT_EQ(stats.std(), std::sqrt(10.5));
  EXPECT_EQ(stats.rms(), std::sqrt(11.5));
  EXPECT_EQ(stats.l1(), 10);
  EXPECT_EQ(stats.l2(), std::sqrt(46));
}

TEST(tensor_stats, of_nothing_finite_are_nan) {
  for (const TensorStats& stats : {stats_of({}), stats_of({std::nan(""), -kInf})}) {
    EXPECT_EQ(stats.min, kInf);
    EXPECT_EQ(stats.max, -kInf);
    EXPECT_TRUE(std::isnan(stats.mean()));
    EXPECT_TRUE(std::isnan(stats.mean_abs()));
    EXPECT_TRUE(std::isnan(stats.variance()));
    EXPECT_TRUE(std::isnan(stats.std()));
    EXPECT_TRUE(std::isnan(stats.rms()));
    EXPECT_TRUE(std::isnan(stats.max_abs()));
    EXPECT_EQ(stats.l2(), 0);
  }
}

TEST(tensor_stats, never_have_a_negative_variance) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 200; ++round) {
    const double value = std::ldexp(1.0 + static_cast<double>(random() % 1000) / 999, round - 100);
    EXPECT_GE(stats_of(std::vector<double>(1 + random() % 100, value)).variance(), 0);
  }
  EXPECT_EQ(stats_of({1e200, 1e200}).variance(), kInf);
}

TEST(tensor_stats, merge_in_any_order_to_those_of_the_whole) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 50; ++round) {
    // GIVEN a tensor cut at two random places
    const std::vector<double> whole = random_integers(random, 3 + random() % 500);
    auto first = whole.begin() + static_cast<int64_t>(random() % whole.size());
    auto second = whole.begin() + static_cast<int64_t>(random() % whole.size());
    if (second < first) std::swap(first, second);
    Histogram bins_a, bins_b, bins_c, bins_whole;
    const TensorStats a = stats_of({whole.begin(), first}, &bins_a);
    const TensorStats b = stats_of({first, second}, &bins_b);
    const TensorStats c = stats_of({second, whole.end()}, &bins_c);
    // WHEN merged as (a+b)+c, a+(b+c) and (c+b)+a
    TensorStats left = a, right = b, reversed = c;
    merge(left, b);
    merge(left, c);
    merge(right, c);
    TensorStats nested = a;
    merge(nested, right);
    merge(reversed, b);
    merge(reversed, a);
    // THEN all are those of the whole
    const TensorStats expected = stats_of(whole, &bins_whole);
    expect_same(left, expected);
    expect_same(nested, expected);
    expect_same(reversed, expected);
    merge(bins_c, bins_a);
    merge(bins_c, bins_b);
    EXPECT_EQ(bins_c.bins, bins_whole.bins);
  }
}

TEST(tensor_stats, merged_with_nothing_stay_the_same) {
  const TensorStats stats = stats_of({1, -2, kInf});
  TensorStats merged = stats;
  merge(merged, TensorStats());
  expect_same(merged, stats);
  TensorStats into_nothing;
  merge(into_nothing, stats);
  expect_same(into_nothing, stats);
}

TEST(tensor_stats, divided_by_a_loss_scale_are_those_of_the_divided_tensor) {
  const std::vector<double> scaled = {65536, -131072, 0, 32768, kInf};
  std::vector<double> plain = scaled;
  for (double& x : plain) x /= 65536;
  expect_same(divided_by(stats_of(scaled), 65536), stats_of(plain));
}

TEST(tensor_stats, bin_numbers_by_sign_and_exponent) {
  Histogram histogram;
  stats_of({0.0, -0.0, 1, 1.99, -1, 0.5, 3, 1e-300, -1e300, 5e-324, kInf, std::nan("")},
           &histogram);
  EXPECT_EQ(histogram.bins[0], 1U);
  EXPECT_EQ(histogram.bins[256], 1U);
  EXPECT_EQ(histogram.bins[128], 2U);
  EXPECT_EQ(histogram.bins[256 + 128], 1U);
  EXPECT_EQ(histogram.bins[127], 1U);
  EXPECT_EQ(histogram.bins[129], 1U);
  EXPECT_EQ(histogram.bins[1], 2U);
  EXPECT_EQ(histogram.bins[256 + 255], 1U);
}

TEST(tensor_stats, give_half_precision_denormals_their_true_exponent) {
  const std::vector<uint16_t> bits = {0x0001, 0x8200};  // 2^-24 and -2^-15
  Histogram histogram;
  compute_stats(dense_view(bits.data(), DType::kFloat16, 2), &histogram);
  EXPECT_EQ(histogram.bins[128 - 24], 1U);
  EXPECT_EQ(histogram.bins[256 + 128 - 15], 1U);
}

TEST(tensor_stats, of_an_expanded_number_cost_one_element) {
  // The gradient of sum() is one number, expanded; here to 10^12 elements.
  const float one = 0.5F;
  TensorView view = dense_view(&one, DType::kFloat32, 1'000'000'000'000);
  view.strides[0] = 0;
  Histogram histogram;
  const TensorStats stats = compute_stats(view, &histogram);
  EXPECT_EQ(stats.count, 1'000'000'000'000U);
  EXPECT_EQ(stats.sum, 5e11);
  EXPECT_EQ(histogram.bins[127], 1'000'000'000'000U);
}

TEST(tensor_stats, take_the_product_without_overflow_on_the_way) {
  const std::vector<double> values = {1e200, 1e200, 1e-200, -1e-200, 3};
  const TensorView view = dense_view(values.data(), DType::kFloat64, std::ssize(values));
  EXPECT_NEAR(compute_product(view), -3, 1e-12);
  EXPECT_EQ(compute_product(dense_view(nullptr, DType::kFloat64, 0)), 1);
  const std::vector<float> odd = {2, std::numeric_limits<float>::infinity(), -1};
  EXPECT_EQ(compute_product(dense_view(odd.data(), DType::kFloat32, 3)), -kInf);
  const std::vector<int64_t> integers = {3, 7, -2};
  EXPECT_EQ(compute_product(dense_view(integers.data(), DType::kInt64, 3)), -42);
}

TEST(tensor_stats, take_the_product_of_an_expanded_view) {
  const float value = -2;
  TensorView view = dense_view(&value, DType::kFloat32, 5);
  view.strides[0] = 0;
  EXPECT_EQ(compute_product(view), -32);
  view.sizes[0] = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(compute_product(view), -kInf);
}

#if defined(__x86_64__)
TEST(tensor_stats, are_the_same_when_the_job_flushes_denormals_and_traps_on_nan) {
  // GIVEN a thread that flushes denormals, rounds down and traps on every exception but inexact
  const std::vector<float> data = {1e-40F, -1e-40F, 0, std::numeric_limits<float>::quiet_NaN(),
                                   std::numeric_limits<float>::infinity()};
  const TensorView view = dense_view(data.data(), DType::kFloat32, std::ssize(data));
  const TensorStats expected = compute_stats(view);
  const unsigned before = _mm_getcsr();
  const unsigned odd = 0xb040;
  _mm_setcsr(odd);
  // WHEN the statistics are computed
  const TensorStats stats = compute_stats(view);
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  // THEN they are the same, and the thread's settings and flags too
  EXPECT_EQ(after, odd);
  EXPECT_EQ(stats.zero, 1U);
  EXPECT_EQ(stats.nan, 1U);
  expect_same(stats, expected);
}
#endif

}  // namespace
}  // namespace paramedic::stats
