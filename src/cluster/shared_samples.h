#pragma once
// How the samples that peers have read lie to each other: read twice, read by nobody.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cluster/passes.h"
#include "cluster/peers.h"

namespace paramedic::cluster {

// Whether two ranks' ids mean the same samples. Not known where a difference in content may come
// from augmentation, or may not.
enum class SameData : uint8_t { kNo, kYes, kUnknown };

struct Coverage {
  std::vector<int32_t> ranks;  // those compared: their data set is the same
  bool by_root = false;        // ids are those of the data set under subsets
  int64_t size = 0;            // samples of the data set
  int64_t modulus = 1;
  int64_t read = 0;       // by all, each as often as it was read
  int64_t distinct = 0;   // by anybody
  int64_t own_twice = 0;  // read again by the same rank
  int64_t shared = 0;     // read by more ranks than one, counted once for each rank after the first
  std::vector<std::vector<int64_t>> pairwise;  // samples that two ranks have both read
};

// Whether each of `ranks` has told of what it read, and with `over` of its whole pass.
bool all_have_read(const Pass& pass, const std::vector<int32_t>& ranks, bool over = false);

// Of the largest part of `peers` whose ids can be compared; nothing where no two can. `before` is
// the pass before this one, or null: it tells augmentation from different data.
std::optional<Coverage> coverage_of(const Pass& pass, const Pass* before, const Peers& peers);

// The rank whose sampler was told another number than its place among `peers`; -1 for several,
// nothing where all are right or it is not known.
std::optional<int32_t> wrong_sampler_rank(const Pass& pass, const Peers& peers);

// The line of the job that shares the data out, as `rank` says it.
std::optional<rules::Where> where_shared_out(const Pass& pass, int32_t rank, bool by_dataset);

}  // namespace paramedic::cluster
