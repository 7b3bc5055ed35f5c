#pragma once
// What ranks tell of their copies of a model: the events `replica_tensors`, `fingerprints` and
// `rank_branches` (adapters/torch/replicas.py), checked and parsed. Plain values.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "rules/finding.h"

namespace paramedic::cluster {

// Numbers in an event; the taps fold more tensors than these into as many.
constexpr size_t kReplicaTensorsMax = 4096;
constexpr size_t kRankBranchesMax = 64;

// Which tensor each fingerprint is of, from one rank and optimizer.
struct ReplicaTensors {
  std::string optimizer;
  int32_t world_size = 1;
  std::vector<std::string> names;
  std::vector<int64_t> elements;
  std::string flags;           // by tensor: d DistributedDataParallel, s a shard, . neither
  std::vector<int32_t> ranks;  // of DistributedDataParallel's group; empty without it
  bool averaging = false;      // replicas may differ for some steps, by the job's own wish

  [[nodiscard]] bool same_model(const ReplicaTensors& other) const {
    return names == other.names && elements == other.elements && ranks == other.ranks;
  }
};

// A look at one update. `after` is empty where the job ended inside it.
struct Look {
  std::string optimizer;
  int64_t count = 0;  // updates by this optimizer before it
  std::vector<uint64_t> before;
  std::vector<uint64_t> gradients;
  std::vector<uint64_t> after;
  std::optional<uint64_t> state;
  std::optional<uint64_t> buffers;
  // From other rows of the same step: the loss, and the bytes given to collectives of all ranks.
  std::optional<double> loss;
  uint64_t traffic_bytes = 0;
};

// A line of the job that may treat one rank unlike the others.
struct RankBranch {
  rules::Where where;
  std::vector<std::string> kinds;  // random | weights | gradient | rate | bypass
  bool of_rank = false;            // it stands under a condition on the rank, or takes the rank
  std::optional<bool> taken;       // whether this rank comes there; none: not known
};

Result<ReplicaTensors> parse_replica_tensors(const std::string& json);
Result<Look> parse_fingerprints(const std::string& json);
Result<std::vector<RankBranch>> parse_rank_branches(const std::string& json);

}  // namespace paramedic::cluster
