#pragma once
// What tf.data's auto-shard policies make of the data sets that the workers of a job were given, as
// far as the configuration alone says it. From `distributed_dataset` events {number, workers,
// policy, cardinality, source, print, count, shuffled, sharded, where}, of which nothing is trusted
// (python/paramedic/adapters/tensorflow/inputs.py). Plain values; one thread.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rules/finding.h"
#include "store/rows.h"

namespace paramedic::cluster {

// A data set that a worker gave to its strategy.
struct GivenDataset {
  std::string policy;  // OFF AUTO FILE DATA HINT
  std::string source;  // "tensors", "files", …; "" = not known
  std::string print;   // equal for equal sources; "" = not known
  int64_t count = -1;  // elements or files of the source
  bool shuffled = false;
  bool sharded = false;  // by hand
  rules::Where where;
};

// What all workers gave to their strategy at the same call.
struct GivenByAll {
  int64_t number = 0;                        // of the call in each process
  std::map<int32_t, GivenDataset> datasets;  // by rank, of all workers
};

class AutoShard {
 public:
  // The call that is complete with this event; nothing for all other events.
  std::optional<GivenByAll> take(const store::EventRow& row);

 private:
  std::map<int64_t, std::map<int32_t, GivenDataset>> given_;  // by number, not complete yet
};

// Every worker reads all of the same source, and nothing shares it out.
std::optional<rules::Finding> overlap_of(const GivenByAll& given);
// Fewer files than workers, and the files are what is shared out.
std::optional<rules::Finding> want_of_files(const GivenByAll& given);

}  // namespace paramedic::cluster
