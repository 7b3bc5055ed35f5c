#include "stats/flat_view.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace paramedic::stats {
namespace {

TensorView view_of(const float* data, std::vector<int64_t> sizes, std::vector<int64_t> strides) {
  TensorView view;
  view.data = data;
  view.ndim = static_cast<uint32_t>(sizes.size());
  std::copy(sizes.begin(), sizes.end(), view.sizes);
  std::copy(strides.begin(), strides.end(), view.strides);
  return view;
}

TEST(flat_view, sees_that_a_transposed_tensor_is_dense) {
  const FlatView flat = flatten(view_of(nullptr, {3, 4, 5}, {1, 15, 3}));
  ASSERT_EQ(flat.ndim, 1U);
  EXPECT_EQ(flat.sizes[0], 60);
  EXPECT_EQ(flat.strides[0], 1);
  EXPECT_EQ(flat.repeat, 1U);
}

TEST(flat_view, turns_reversed_dimensions_round) {
  const std::vector<float> data(12);
  const FlatView flat = flatten(view_of(&data[11], {3, 4}, {-4, -1}));
  ASSERT_EQ(flat.ndim, 1U);
  EXPECT_EQ(flat.data, reinterpret_cast<const std::byte*>(data.data()));
  EXPECT_EQ(flat.sizes[0], 12);
}

TEST(flat_view, counts_expanded_dimensions_instead_of_walking_them) {
  const FlatView flat = flatten(view_of(nullptr, {1'000'000, 1'000'000}, {0, 0}));
  EXPECT_EQ(flat.ndim, 0U);
  EXPECT_EQ(flat.repeat, 1'000'000'000'000U);
}

TEST(flat_view, keeps_a_slice_as_runs) {
  const FlatView flat = flatten(view_of(nullptr, {10, 1, 3}, {100, 7, 1}));
  ASSERT_EQ(flat.ndim, 2U);
  EXPECT_EQ(flat.strides[0], 100);
  EXPECT_EQ(flat.strides[1], 1);
}

TEST(flat_view, has_nothing_where_a_size_is_zero) {
  EXPECT_EQ(flatten(view_of(nullptr, {5, 0, 3}, {0, 1, 1})).repeat, 0U);
}

TEST(flat_view, hands_out_every_element_of_a_strided_view_once) {
  std::vector<float> data(4000);
  std::iota(data.begin(), data.end(), 0.0F);
  double sum = 0;
  size_t seen = 0;
  for_each_chunk(flatten(view_of(data.data(), {1500}, {2})), [&](const void* chunk, size_t count) {
    EXPECT_LE(count, kChunk);
    const auto* x = static_cast<const float*>(chunk);
    sum = std::accumulate(x, x + count, sum);
    seen += count;
  });
  EXPECT_EQ(seen, 1500U);
  EXPECT_EQ(sum, 1499.0 * 1500);
}

TEST(flat_view, hands_out_a_dense_view_where_it_lies) {
  const std::vector<float> data(5000);
  size_t calls = 0;
  for_each_chunk(flatten(view_of(data.data(), {50, 100}, {100, 1})),
                 [&](const void* chunk, size_t count) {
                   EXPECT_EQ(chunk, data.data());
                   EXPECT_EQ(count, 5000U);
                   ++calls;
                 });
  EXPECT_EQ(calls, 1U);
}

}  // namespace
}  // namespace paramedic::stats
