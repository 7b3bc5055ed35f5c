#pragma once
// What a coordinator of TensorFlow's parameter servers told of its workers: how long the functions
// take that it sends them, and which worker does not give one back. From `closures` events
// {workers: [{rank, done, spent_ms, since_ns}], waits_since_ns}, of which nothing is trusted
// (python/paramedic/adapters/tensorflow/closures.py). Bounded; one thread.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "cluster/job.h"
#include "rules/finding.h"
#include "store/rows.h"

namespace paramedic::cluster {

class Closures {
 public:
  // True when the row was one of closures.
  bool take(const store::EventRow& row);

  // A worker that needs much longer for a function than the others do.
  [[nodiscard]] std::optional<rules::Finding> slow_worker() const;
  // A worker that does not give back what it was sent, while the coordinator waits for it.
  [[nodiscard]] std::optional<rules::Finding> stuck_worker(const Job& job) const;

 private:
  struct Second {
    int64_t time_ns = 0;
    double done = 0;
    double spent_ms = 0;
  };
  struct Worker {
    std::deque<Second> seconds;  // the newest, oldest first
    int64_t since_ns = 0;        // when it was given what it runs; 0 = nothing
  };
  std::map<int32_t, Worker> workers_;  // by rank
  int64_t waits_since_ns_ = 0;         // the coordinator, for all that it has sent; 0 = it does not
  int32_t coordinator_ = 0;
};

}  // namespace paramedic::cluster
