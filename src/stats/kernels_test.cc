// Every set of kernels against the naive reading, and against values known from elsewhere.

#include "stats/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "stats/decode.h"
#include "stats/differential.h"

namespace paramedic::stats {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<uint8_t> random_bytes(std::mt19937_64& random, size_t count) {
  std::vector<uint8_t> bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

TEST(kernels, agree_on_random_views_of_all_types) {
  std::mt19937_64 random(20260101);
  for (int round = 0; round < 3000; ++round) {
    std::vector<uint8_t> bytes = random_bytes(random, 24 + random() % 1500);
    bytes[0] = static_cast<uint8_t>(round % kDTypeCount);
    ASSERT_EQ(first_difference(case_from_bytes(bytes)), "") << "round " << round;
  }
}

TEST(kernels, agree_on_every_length_around_the_vectors_and_blocks) {
  std::mt19937_64 random(7);
  std::vector<float> data(4096 * 2 + 40);
  for (float& x : data) x = static_cast<float>(random() % 2001) / 1000 - 1;
  std::vector<int64_t> counts(70);
  std::iota(counts.begin(), counts.end(), 0);
  for (const int64_t middle : {1024, 4096, 8192}) {
    for (int64_t n = middle - 3; n <= middle + 20; ++n) counts.push_back(n);
  }
  for (const int64_t count : counts) {
    Case subject{{}, dense_view(data.data(), DType::kFloat32, count), 0, -0.5, 0.5};
    ASSERT_EQ(first_difference(subject), "") << count << " elements";
  }
}

TEST(kernels, find_one_nan_or_inf_at_any_place_of_a_block) {
  std::vector<float> data(4096 + 37, 1.0F);
  for (const Kernels* kernels : supported_kernels()) {
    for (size_t place = 0; place < data.size(); place += 29) {
      for (const float odd : {kNan, kInf, -kInf}) {
        data[place] = odd;
        const TensorView view = dense_view(data.data(), DType::kFloat32, std::ssize(data));
        const TensorStats stats = compute_stats_with(*kernels, view);
        data[place] = 1;
        ASSERT_EQ(stats.nan, std::isnan(odd) ? 1U : 0U) << kernels->name << " at " << place;
        ASSERT_EQ(stats.positive_inf, odd == kInf ? 1U : 0U);
        ASSERT_EQ(stats.negative_inf, odd == -kInf ? 1U : 0U);
        ASSERT_EQ(stats.sum, static_cast<double>(data.size() - 1));
        ASSERT_EQ(stats.min, 1);
        ASSERT_EQ(stats.max, 1);
      }
    }
  }
}

TEST(kernels, keep_the_squares_of_vanishing_gradients) {
  // The square of 1e-30 is no float; a sum of squares in float would be 0.
  const std::vector<float> data(1000, 1e-30F);
  for (const Kernels* kernels : supported_kernels()) {
    const TensorView view = dense_view(data.data(), DType::kFloat32, std::ssize(data));
    EXPECT_NEAR(compute_stats_with(*kernels, view).l2() / (std::sqrt(1000.0) * 1e-30), 1, 1e-6);
  }
}

TEST(kernels, give_a_constant_tensor_no_variance) {
  const std::vector<float> data(100'000, 0.1F);
  for (const Kernels* kernels : supported_kernels()) {
    const TensorView view = dense_view(data.data(), DType::kFloat32, std::ssize(data));
    EXPECT_LT(compute_stats_with(*kernels, view).std(), 1e-7) << kernels->name;
  }
}

TEST(kernels, decode_half_precision_as_numpy_does) {
  const std::vector<uint16_t> bits = {0x3c00, 0xc000, 0x0001, 0x03ff, 0x0400, 0x7bff, 0x3555,
                                      0x8001, 0x8000, 0x7c00, 0xfc00, 0x7e00, 0x0000, 0x4248};
  const std::vector<float> expected = {1,     -2,          0x1p-24F,  0x1.ff8p-15F, 0x1p-14F,
                                       65504, 0.33325195F, -0x1p-24F, -0.0F,        kInf,
                                       -kInf, kNan,        0,         3.140625F};
  for (const Kernels* kernels : supported_kernels()) {
    // More than once, so that both the vectors and the rest are used.
    for (size_t skip = 0; skip < 5; ++skip) {
      std::vector<uint16_t> from(64 + skip);
      for (size_t i = 0; i < from.size(); ++i) from[i] = bits[(i + skip) % bits.size()];
      std::vector<float> to(from.size());
      kernels->decode_f16(from.data(), from.size(), to.data());
      for (size_t i = 0; i < to.size(); ++i) {
        const float wanted = expected[(i + skip) % bits.size()];
        if (std::isnan(wanted)) {
          EXPECT_TRUE(std::isnan(to[i])) << kernels->name;
        } else {
          EXPECT_EQ(to[i], wanted) << kernels->name;
          EXPECT_EQ(std::signbit(to[i]), std::signbit(wanted)) << kernels->name;
        }
      }
    }
  }
}

TEST(kernels, decode_all_16_bit_floats_alike) {
  std::vector<uint16_t> from(65536);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<uint16_t>(i);
  for (const DType dtype : {DType::kFloat16, DType::kBfloat16}) {
    for (int64_t first = 0; first < 65536; first += 4096) {
      Case subject{{}, dense_view(&from[static_cast<size_t>(first)], dtype, 4096), 0, -1, 1};
      ASSERT_EQ(first_difference(subject), "") << dtype_name(dtype) << " from " << first;
    }
  }
}

// Values from torch 2.13: torch.tensor([byte], dtype=torch.uint8).view(dtype).float().
TEST(kernels, decode_8_bit_floats_as_torch_does) {
  const ByteValues& e4m3fn = byte_values(DType::kFloat8E4m3fn);
  EXPECT_EQ(e4m3fn[0x01], 0.001953125F);
  EXPECT_EQ(e4m3fn[0x07], 0.013671875F);
  EXPECT_EQ(e4m3fn[0x08], 0.015625F);
  EXPECT_EQ(e4m3fn[0x38], 1.0F);
  EXPECT_EQ(e4m3fn[0x7e], 448.0F);
  EXPECT_EQ(e4m3fn[0xfe], -448.0F);
  EXPECT_TRUE(std::isnan(e4m3fn[0x7f]));
  EXPECT_TRUE(std::isnan(e4m3fn[0xff]));
  const ByteValues& e5m2 = byte_values(DType::kFloat8E5m2);
  EXPECT_EQ(e5m2[0x01], 1.52587890625e-05F);
  EXPECT_EQ(e5m2[0x3c], 1.0F);
  EXPECT_EQ(e5m2[0x7b], 57344.0F);
  EXPECT_EQ(e5m2[0x7c], kInf);
  EXPECT_EQ(e5m2[0xfc], -kInf);
  EXPECT_TRUE(std::isnan(e5m2[0x7d]));
}

TEST(kernels, hold_the_stated_error_on_a_long_tensor) {
  std::mt19937_64 random(3);
  std::vector<float> data(3'000'000);
  for (float& x : data) x = static_cast<float>(static_cast<int64_t>(random())) * 1e-18F;
  const TensorView view = dense_view(data.data(), DType::kFloat32, std::ssize(data));
  const Expected expected = expected_of(values_of(view));
  for (const Kernels* kernels : supported_kernels()) {
    const TensorStats stats = compute_stats_with(*kernels, view);
    const double allowed = sum_tolerance(stats.count, expected.stats.sum_abs);
    EXPECT_LE(std::fabs(stats.sum - expected.stats.sum), allowed) << kernels->name;
    EXPECT_LE(std::fabs(stats.sum_abs - expected.stats.sum_abs), allowed) << kernels->name;
    EXPECT_LE(std::fabs(stats.sum_squares - expected.stats.sum_squares),
              sum_tolerance(stats.count, expected.stats.sum_squares))
        << kernels->name;
  }
}

TEST(kernels, include_the_scalar_ones_everywhere) {
  ASSERT_GE(supported_kernels().size(), 1U);
  EXPECT_EQ(supported_kernels().front(), &scalar_kernels());
  EXPECT_EQ(supported_kernels().back(), &best_kernels());
}

}  // namespace
}  // namespace paramedic::stats
