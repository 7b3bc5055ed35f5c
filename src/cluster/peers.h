#pragma once
// Which ranks learn one model together and so have to share out its data: only between those is it
// a fault that two read the same. Ranks of one tensor-parallel group, or of an ensemble, read the
// same data rightly.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cluster/passes.h"
#include "cluster/watch.h"

namespace paramedic::cluster {

struct Peers {
  std::vector<int32_t> ranks;  // ascending, at least two
  // Every batch ends in an operation of all of them: whoever has fewer batches lets them wait.
  bool in_step = false;
  std::string evidence;
};

// Learns from the rows of all ranks who averages gradients with whom.
class PeerFinder {
 public:
  void on_model(const store::ModelRow& row);
  void on_collective(const store::CollectiveRow& row);
  void on_moment(const Moment& moment);

  // The groups of peers among the ranks that have begun `pass`; a group of which a rank has not
  // is left out unless `partial`. Empty where nothing says that ranks share the work.
  [[nodiscard]] std::vector<Peers> groups(const Pass& pass, bool partial = false) const;
  // Processes of the job; 0 before the first moment.
  [[nodiscard]] int32_t world_size() const { return world_size_; }

 private:
  [[nodiscard]] std::vector<Peers> by_wrapper(const Pass& pass) const;
  [[nodiscard]] std::vector<Peers> by_sampler(const Pass& pass) const;
  [[nodiscard]] std::vector<Peers> by_collectives() const;

  // How often the ranks of a group have averaged something as large as their gradients.
  struct Averages {
    int64_t calls = 0;
    // Of the group's first rank: steps with such a call, and the first and last of them.
    int64_t steps = 0;
    int64_t first_step = -1;
    int64_t last_step = -1;
  };

  int32_t world_size_ = 0;
  std::map<int32_t, std::set<std::vector<int64_t>>> shapes_;  // of parameters, by rank
  std::map<int32_t, int64_t> parameters_;                     // elements of all, by rank
  std::map<store::Members, Averages> averages_;               // by ranks of the group
};

}  // namespace paramedic::cluster
