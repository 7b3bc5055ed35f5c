#pragma once
// For tests: a job of several ranks that is told what its ranks do, one call after another, with a
// clock of its own.

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cluster/test_cluster.h"

namespace paramedic::cluster {

class TestJob {
 public:
  using Group = const store::GroupInfo*;
  struct Stalled {
    bool evaluating = false;
    int64_t torch_calls = 0;
    int64_t enqueued = -1;  // of the default group, in the flight recorder
    int64_t completed = -1;
    std::string operation{};  // of the open one
  };

  explicit TestJob(int32_t ranks);

  Group group(const std::string& name, std::vector<int32_t> ranks);
  // Enters a call at train.py:`line`; without `group` the one of all ranks.
  void enter(int32_t rank, const std::string& operation, int32_t line, Group group = nullptr,
             int32_t peer = -1, std::vector<int64_t> sizes = {10});
  // Leaves the call that was entered last.
  void leave(int32_t rank);
  // `count` rows of the rank in the group of all were dropped.
  void lose(int32_t rank, int64_t count) { sequences_[{rank, world_}] += count; }
  void all_reduce_on_all(int calls);

  // Tells that the main thread does not come forward: the stack's frames, innermost first.
  void stall(int32_t rank, const std::vector<store::CallSite>& stack, Stalled stalled);
  void stall(int32_t rank, const std::vector<store::CallSite>& stack) {
    stall(rank, stack, Stalled{});
  }
  void resume(int32_t rank);
  // Percent of a core that the rank uses from now on.
  void busy(int32_t rank, double percent) { busy_percent_[rank] = percent; }
  void metric(const std::string& name, double value);

  void exit_well(int32_t rank) { exit_quietly(rank, 0); }
  // The interpreter ends in good order, with this code and no exception.
  void exit_quietly(int32_t rank, int code);
  void exit_raising(int32_t rank, const std::string& type, const std::string& message,
                    int32_t line);
  void kill(int32_t rank, int signal);

  // Time goes by, with two looks a second; those that stall tell so again.
  void pass(double seconds);
  void finish() { cluster_->finish(); }

  [[nodiscard]] RankProcess& process(int32_t rank) {
    return moment_.processes[static_cast<size_t>(rank)];
  }
  [[nodiscard]] const Found& found() const { return found_; }
  [[nodiscard]] double seconds() const { return static_cast<double>(moment_.time_ns) / 1e9; }

 private:
  [[nodiscard]] int64_t now_ns() const { return moment_.time_ns; }
  void event(int32_t rank, const std::string& kind, const Json& json);

  Found found_;
  std::unique_ptr<Cluster> cluster_ = Cluster::create(found_);
  Moment moment_;
  std::deque<store::GroupInfo> groups_;
  std::deque<store::CallSite> sites_;
  Group world_ = nullptr;
  std::map<std::pair<int32_t, Group>, int64_t> sequences_;
  std::map<int32_t, store::CollectiveRow> entered_;
  std::map<int32_t, Json> stalled_;
  std::map<int32_t, double> busy_percent_;
};

}  // namespace paramedic::cluster
