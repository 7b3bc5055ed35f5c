// Differential: the bytes become a view (type, shape, strides, alignment, contents), and all sets
// of kernels must agree with a naive reading of it.

#include <cstdio>
#include <cstdlib>

#include "stats/differential.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace paramedic::stats;
  const std::string difference = first_difference(case_from_bytes({data, bytes}));
  if (!difference.empty()) {
    std::fprintf(stderr, "%s\n", difference.c_str());
    std::abort();
  }
  return 0;
}
