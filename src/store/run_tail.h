#pragma once
// Follows a run folder that others append to: what has been stored since the last look, as rows.
// Knows how far it has read; bytes are read once and not trusted. One thread.

#include <memory>
#include <string>
#include <vector>

#include "store/run.h"

namespace paramedic::store {

class RunTail {
 public:
  // A folder that is not there yet is one without rows. `members`: of groups, in common with other
  // tails; outlives this.
  RunTail(std::string dir, MembersBook& members);
  RunTail(const RunTail&) = delete;
  RunTail& operator=(const RunTail&) = delete;
  ~RunTail();

  // Finds what has been added to scalars, events, model, collectives and metrics.
  void look();
  // Passes on a slice of what was found, at most some seconds and megabytes of it, each process in
  // its own order as in RunReader::replay. False when nothing was left.
  bool read(RowSink& sink);

  // Damaged batches are passed over and named here, the first thousand of them.
  [[nodiscard]] const std::vector<Damage>& damage() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace paramedic::store
