#pragma once
// The middle of some values. No state.

#include <vector>

namespace paramedic {

// Of an even number the mean of the two in the middle; 0 for none.
double median_of(std::vector<double> values);

}  // namespace paramedic
