#pragma once
// The ranks of a job against each other: takes the rows of all of them and a look at their
// processes, and tells what is wrong between them. Calls nothing in the job and no clock; one
// thread, the agent's.

#include <memory>
#include <vector>

#include "cluster/watch.h"
#include "rules/engine.h"

namespace paramedic::cluster {

class Cluster : public store::RowSink {
 public:
  // All watches. `sink` outlives the cluster. A job of one rank is never judged.
  static std::unique_ptr<Cluster> create(rules::FindingSink& sink);
  virtual void tick(const Moment& moment) = 0;
  // The job has ended.
  virtual void finish() = 0;
};

// The rules of single processes, then the watches: for `rules`, `--on` and the docs.
const std::vector<rules::RuleInfo>& all_rules();

}  // namespace paramedic::cluster
