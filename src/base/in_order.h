#pragma once
// Lists as sets of values. No state.

#include <algorithm>
#include <functional>
#include <vector>

namespace paramedic {

// Ascending, each value once. A list that is so already is only looked through.
template <typename T>
void put_in_order(std::vector<T>& values) {
  const auto falls = std::adjacent_find(values.begin(), values.end(), std::greater_equal<>());
  if (falls == values.end()) return;
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

}  // namespace paramedic
