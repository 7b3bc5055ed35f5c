#pragma once
// For tests: the run folder of a node whose ranks do what they are told, as an agent would write
// it, with a clock of its own.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nodes/look.h"
#include "store/run.h"

namespace paramedic::nodes {

class TestNode {
 public:
  // Ranks `first` to `first` + `count` - 1 of `world`. `skew_ns`: what its clock shows more.
  TestNode(std::string dir, int32_t first, int32_t count, int32_t world, int64_t skew_ns = 0);

  // All of its ranks call and return from the next all_reduce at `time_ns` (true time).
  void all_reduce(int64_t time_ns);
  // They enter the next one and do not return; `without` does not come.
  void enter_all_reduce(int64_t time_ns, int32_t without = -1);
  // `rank` sleeps at train.py:`line` since `since_ns`, as it tells at `time_ns`.
  void stall(int32_t rank, int32_t line, int64_t since_ns, int64_t time_ns);
  // Stores everything, and that this was `time_ns`.
  void flush(int64_t time_ns);
  void end(int64_t time_ns);

  [[nodiscard]] const std::string& dir() const { return info_.dir; }

 private:
  store::CollectiveRow call(int32_t rank, int64_t time_ns);
  store::Origin origin(int32_t rank, int64_t time_ns);

  const int32_t first_;
  const int32_t count_;
  const int64_t skew_ns_;
  store::RunInfo info_;
  std::unique_ptr<store::RunWriter> writer_;
  store::GroupInfo group_;
  store::CallSite site_{"train.py", 50, "main"};
  std::map<int32_t, uint64_t> sequences_;
  std::map<int32_t, int64_t> calls_;
  Look look_;
};

}  // namespace paramedic::nodes
