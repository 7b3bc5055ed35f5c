#pragma once
// Ranks that say to train the same model: their fingerprints put beside each other, step by step,
// and what follows from them: since when copies differ, of which rank, and whether they were meant
// to be equal at all. Knows nothing of files and lines. One thread; bounded memory.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "cluster/replica_rows.h"

namespace paramedic::cluster {

// Between which two looks copies parted.
enum class PartedBy : uint8_t {
  kInitial,    // they were never equal
  kGradients,  // equal weights met different gradients
  kUpdate,     // equal weights and equal gradients gave different weights
  kEdit,       // equal after an update, not so before the next one
  kUnseen,     // somewhere between two looks that are several steps apart
};

struct Parting {
  PartedBy by = PartedBy::kUnseen;
  int64_t step = -1;        // the first one whose look shows it
  int64_t equal_step = -1;  // the last one at which all were equal; -1: never
  size_t tensor = 0;        // the first that differs
  size_t tensors = 0;       // how many differ
  // Ranks that hold the same values, the largest group first; all ranks of the family.
  std::vector<std::vector<int32_t>> groups;
  // The one rank that differs from a strict majority of equals.
  std::optional<int32_t> odd;
  bool gradients_equal = false;  // at that step
  bool state_differs = false;    // the optimizer's state, as far as it was looked at
};

class ReplicaFamily {
 public:
  explicit ReplicaFamily(ReplicaTensors tensors) : tensors_(std::move(tensors)) {}

  [[nodiscard]] const ReplicaTensors& tensors() const { return tensors_; }
  [[nodiscard]] const std::set<int32_t>& members() const { return members_; }
  void join(int32_t rank) { members_.insert(rank); }

  // A look of a member: what its loss tells proves that ranks see different data.
  void add(int32_t rank, int64_t step, Look look);
  // Compares all steps that every member has told. `last`: no more will come, so that those which
  // two members have told are compared too.
  void judge(bool last);

  // Set once copies were found to differ.
  [[nodiscard]] const std::optional<Parting>& parting() const { return parting_; }
  // Whether they are known to be copies, and known to stay apart.
  [[nodiscard]] bool is_desync(bool last) const;
  // Never once put in step, from equal weights on: copies, if data was shared out between them.
  [[nodiscard]] bool never_synchronised() const;
  // The first step at which buffers differ while all weights are equal; -1: none.
  [[nodiscard]] int64_t buffers_step() const { return buffers_step_; }
  // The ranks send samples to each other.
  void note_routing() { routes_samples_ = true; }
  // A member has given so many bytes to collectives of all ranks in one step, looked at or not.
  void note_traffic(uint64_t bytes) { exchanges_all_ = exchanges_all_ || bytes >= bytes_of_all(); }
  // Steps compared so far.
  [[nodiscard]] int64_t compared() const { return compared_; }

 private:
  using Looks = std::map<int32_t, Look>;
  using Values = std::vector<uint64_t> Look::*;
  void judge_step(int64_t step, const Looks& looks);
  [[nodiscard]] bool are_whole_modules(const std::vector<size_t>& tensors) const;
  void judge_equal(int64_t step, const Looks& looks);
  void part(int64_t step, const Looks& looks, const std::vector<size_t>& apart, Values values);
  void weigh_gradients(const Looks& looks, const std::vector<size_t>& apart);
  [[nodiscard]] std::vector<size_t> all_tensors() const;
  [[nodiscard]] std::vector<size_t> differing(const Looks& looks, Values values) const;
  [[nodiscard]] PartedBy cause(int64_t step) const;
  // Whether most elements of `tensors` have the same gradient, and one that is not zero.
  [[nodiscard]] bool share_gradients(const Looks& looks, const std::vector<size_t>& tensors) const;
  [[nodiscard]] bool traffic_covers(const Looks& looks) const;
  // What a rank gives at least to exchange all that are no shards.
  [[nodiscard]] uint64_t bytes_of_all() const;

  ReplicaTensors tensors_;
  std::set<int32_t> members_;
  std::map<int64_t, Looks> steps_;  // not compared yet
  int64_t compared_ = 0;
  // The last step at which all were equal, and what its update showed.
  int64_t equal_step_ = -1;
  bool gradients_differed_ = false;
  bool update_differed_ = false;
  std::vector<uint64_t> equal_weights_;
  // What speaks for copies that are kept equal.
  bool data_differs_ = false;
  bool trained_in_step_ = false;  // equal again after an update by different data
  bool same_gradients_ = false;   // of different weights, of most ranks, or of other tensors
  bool exchanges_all_ = false;    // a member gave as many bytes in some step
  int64_t traffic_steps_ = 0;     // steps whose traffic is enough for all gradients
  // What speaks against it.
  bool reunited_ = false;  // equal again after a parting: averaged now and then
  bool ever_same_gradients_ = false;
  bool own_modules_ = false;     // ranks reduce nothing of some modules, and all of the others
  bool routes_samples_ = false;  // by all_to_all, as to experts that each rank has of its own
  int64_t parted_steps_ = 0;
  int64_t buffers_step_ = -1;
  std::optional<Parting> parting_;
};

}  // namespace paramedic::cluster
