#include "stats/fingerprint.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "stats/differential.h"

namespace paramedic::stats {
namespace {

std::vector<float> random_floats(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> data(count);
  for (float& x : data) x = static_cast<float>(random() % 2001) / 1000 - 1;
  return data;
}

uint64_t of(const std::vector<float>& data) {
  return fingerprint(dense_view(data.data(), DType::kFloat32, std::ssize(data)));
}

TEST(fingerprint, is_the_same_by_all_kernels_on_random_views_of_all_types) {
  std::mt19937_64 random(20261130);
  for (int round = 0; round < 2000; ++round) {
    std::vector<uint8_t> bytes(24 + random() % 1500);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    bytes[0] = static_cast<uint8_t>(round % kDTypeCount);
    const Case subject = case_from_bytes(bytes);
    const uint64_t expected = fingerprint_with(scalar_kernels(), subject.view);
    for (const Kernels* kernels : supported_kernels()) {
      ASSERT_EQ(fingerprint_with(*kernels, subject.view), expected)
          << kernels->name << " round " << round;
    }
  }
}

TEST(fingerprint, never_changes_from_version_to_version) {
  // Ranks may run different builds.
  const std::vector<float> data = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17};
  EXPECT_EQ(of(data), 18346057869990335287U);
}

TEST(fingerprint, of_nothing_and_of_zeros_is_zero_and_of_anything_else_is_not) {
  EXPECT_EQ(of({}), 0U);
  EXPECT_EQ(of(std::vector<float>(1000)), 0U);
  std::vector<float> data(1000);
  for (size_t place = 0; place < data.size(); ++place) {
    data[place] = 1;
    EXPECT_NE(of(data), 0U) << place;
    data[place] = 0;
  }
}

TEST(fingerprint, sees_every_single_bit_and_every_place) {
  std::vector<float> data = random_floats(100, 1);
  std::set<uint64_t> seen = {of(data)};
  for (float& x : data) {
    for (uint32_t bit = 0; bit < 32; ++bit) {
      const float kept = x;
      x = std::bit_cast<float>(std::bit_cast<uint32_t>(x) ^ 1U << bit);
      EXPECT_TRUE(seen.insert(of(data)).second);
      x = kept;
    }
  }
}

TEST(fingerprint, sees_the_order_of_elements) {
  std::vector<float> data = random_floats(64, 2);
  const uint64_t before = of(data);
  for (size_t i = 0; i + 1 < data.size(); ++i) {
    for (size_t k = i + 1; k < data.size(); ++k) {
      if (std::bit_cast<uint32_t>(data[i]) == std::bit_cast<uint32_t>(data[k])) continue;
      std::swap(data[i], data[k]);
      EXPECT_NE(of(data), before) << i << " and " << k;
      std::swap(data[i], data[k]);
    }
  }
}

TEST(fingerprint, of_a_strided_view_is_that_of_its_elements_laid_side_by_side) {
  const std::vector<float> data = random_floats(3000, 3);
  TensorView view;
  view.data = data.data();
  view.ndim = 2;
  view.sizes[0] = 30;
  view.strides[0] = 100;
  view.sizes[1] = 37;
  view.strides[1] = 1;
  std::vector<float> dense;
  for (size_t row = 0; row < 30; ++row) {
    dense.insert(dense.end(), &data[row * 100], &data[row * 100] + 37);
  }
  EXPECT_EQ(fingerprint(view), of(dense));
}

}  // namespace
}  // namespace paramedic::stats
