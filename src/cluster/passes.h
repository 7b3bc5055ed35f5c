#pragma once
// What the ranks said of their passes over the training loaders (python/paramedic/adapters/torch/
// shards), put together by loader and epoch. Built from `epoch_begun` and `epoch_read` events, of
// which nothing is trusted. Plain values; one thread.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "rules/finding.h"
#include "store/rows.h"

namespace paramedic::cluster {

// Ids 0 … size-1 of a data set, those that `modulus` divides: which of them a rank has read.
struct SampleSet {
  int64_t size = 0;
  int64_t modulus = 1;
  int64_t read = 0;
  int64_t distinct = 0;
  std::vector<uint8_t> bits;  // id 0 is the highest bit of the first byte
};

struct DatasetFacts {
  std::string class_name;
  int64_t length = -1;
  std::string print;  // equal for equal data sets; "" where it was not told
  rules::Where where;
};

struct SamplerFacts {
  std::string class_name;
  std::optional<int64_t> replicas;  // those it divides by; none where it knows of no ranks
  std::optional<int64_t> rank;
  std::optional<bool> shuffle;
  std::optional<int64_t> epoch;
  bool drop_last = false;
  bool replacement = false;  // draws the same sample more than once by design
  bool part = false;         // draws from a list of its own
  bool own = false;          // of the job's own code
  rules::Where where;
};

// A model whose gradients are averaged between `ranks`.
struct Sharing {
  store::Members ranks;
  bool join = false;  // ranks may run out of batches at different times
};

struct PassBegun {
  rules::Where where;              // of the loader
  std::optional<int64_t> batches;  // the loader's length
  int64_t batch_size = 1;
  int64_t batches_a_step = 1;  // more under gradient accumulation
  bool drop_last = false;
  std::string loop;  // "plain": its loop ends with the loader alone
  SamplerFacts sampler;
  DatasetFacts dataset;
  std::optional<DatasetFacts> root;  // under subsets
  std::optional<Sharing> sharing;
};

struct PassRead {
  bool over = false;       // else a look before its end
  bool exhausted = false;  // the loader had no more; else the loop was left
  int64_t time_ns = 0;
  int64_t batches = 0;
  int64_t samples = 0;
  std::string order;  // a hash of the ids in their order; "" where there are none
  std::optional<SampleSet> ids;
  std::optional<SampleSet> root_ids;
  std::map<int64_t, uint32_t> pairs;  // content of some ids
  std::vector<uint32_t> contents;     // of the first samples, ascending, each once
  int64_t contents_read = 0;
};

struct RankPass {
  PassBegun begun;
  std::optional<PassRead> read;  // the newest
};

struct Pass {
  std::string loader;
  int64_t epoch = 0;
  std::map<int32_t, RankPass> ranks;  // those that have begun it
};

class Passes {
 public:
  // The pass that the event is about, with it taken in; null for all other events. The answer
  // stays until the next call.
  const Pass* take(const store::EventRow& row);
  // Null when it is not known, or forgotten.
  [[nodiscard]] const Pass* find(const std::string& loader, int64_t epoch) const;
  [[nodiscard]] const std::map<std::pair<std::string, int64_t>, Pass>& all() const {
    return passes_;
  }

 private:
  store::MembersBook members_;
  std::map<std::pair<std::string, int64_t>, Pass> passes_;
};

}  // namespace paramedic::cluster
