#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "stats/kernels.h"
#include "stats/tensor_stats.h"

namespace paramedic::stats {
namespace {

TensorView row_major(const void* data, DType dtype, const std::vector<int64_t>& sizes) {
  TensorView view;
  view.data = data;
  view.dtype = dtype;
  view.ndim = static_cast<uint32_t>(sizes.size());
  int64_t stride = 1;
  for (uint32_t dim = view.ndim; dim-- > 0;) {
    view.sizes[dim] = sizes[dim];
    view.strides[dim] = stride;
    stride *= sizes[dim];
  }
  return view;
}

TEST(mark_units, tells_dead_from_living_units_of_a_linear_layer) {
  // GIVEN three examples of four units; the second is always zero
  const std::vector<float> data = {1, 0, 5, 0, 2, -0.0F, 0, 0, 0, 0, 9, 0.5F};
  std::vector<uint8_t> alive(4), moving(4);
  // WHEN marked with the range in which a unit still moves
  const uint64_t outside = mark_units(row_major(data.data(), DType::kFloat32, {3, 4}), 1, 0.1, 2,
                                      alive.data(), moving.data());
  // THEN
  EXPECT_EQ(alive, (std::vector<uint8_t>{1, 0, 1, 1}));
  EXPECT_EQ(moving, (std::vector<uint8_t>{1, 0, 0, 1}));
  EXPECT_EQ(outside, 9U);
}

TEST(mark_units, tells_dead_from_living_channels_of_an_image) {
  // GIVEN [batch 2, channels 3, 2, 2]; channel 1 is zero in both, channel 2 in the first only
  std::vector<float> data(24, 0.0F);
  data[0] = 1;
  data[12 + 8] = 3;
  std::vector<uint8_t> alive(3), moving(3);
  const uint64_t outside = mark_units(row_major(data.data(), DType::kFloat32, {2, 3, 2, 2}), 1, 2,
                                      4, alive.data(), moving.data());
  EXPECT_EQ(alive, (std::vector<uint8_t>{1, 0, 1}));
  EXPECT_EQ(moving, (std::vector<uint8_t>{0, 0, 1}));
  EXPECT_EQ(outside, 23U);
}

TEST(mark_units, adds_to_what_earlier_batches_marked) {
  const std::vector<float> zeros(6, 0.0F);
  std::vector<uint8_t> alive = {1, 0, 0}, moving = {0, 1, 0};
  mark_units(row_major(zeros.data(), DType::kFloat32, {2, 3}), 1, 1, 2, alive.data(),
             moving.data());
  EXPECT_EQ(alive, (std::vector<uint8_t>{1, 0, 0}));
  EXPECT_EQ(moving, (std::vector<uint8_t>{0, 1, 0}));
}

TEST(mark_units, counts_nan_as_alive_and_outside) {
  const std::vector<float> data = {std::numeric_limits<float>::quiet_NaN(), 0};
  std::vector<uint8_t> alive(2), moving(2);
  EXPECT_EQ(mark_units(row_major(data.data(), DType::kFloat32, {1, 2}), 1, -1, 1, alive.data(),
                       moving.data()),
            1U);
  EXPECT_EQ(alive, (std::vector<uint8_t>{1, 0}));
  EXPECT_EQ(moving, (std::vector<uint8_t>{0, 1}));
}

TEST(mark_units, compares_floats_with_the_bounds_as_doubles) {
  // 0.1F is larger than 0.1, and the bound 0.1 must not be rounded to it.
  const float just_above = 0.1F;
  std::vector<uint8_t> alive(1), moving(1);
  const TensorView view = row_major(&just_above, DType::kFloat32, {1});
  EXPECT_EQ(mark_units(view, 0, 0, 0.1, alive.data(), moving.data()), 1U);
  EXPECT_EQ(mark_units(view, 0, 0.1, 1, alive.data(), moving.data()), 0U);
}

TEST(mark_units, does_nothing_for_a_dimension_that_is_not_there) {
  const float one = 1;
  uint8_t alive = 0, moving = 0;
  EXPECT_EQ(mark_units(row_major(&one, DType::kFloat32, {1}), 1, 0, 2, &alive, &moving), 0U);
  EXPECT_EQ(mark_units(row_major(&one, DType::kFloat32, {}), 0, 0, 2, &alive, &moving), 0U);
  EXPECT_EQ(alive + moving, 0);
}

}  // namespace
}  // namespace paramedic::stats
