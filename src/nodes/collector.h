#pragma once
// All jobs whose nodes write into one folder, and a judge for each. `tick` from one thread; `take`
// from any.

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "nodes/board.h"
#include "nodes/inbox.h"
#include "nodes/judge.h"

namespace paramedic::nodes {

struct CollectorCallbacks {
  std::function<void(const std::string& job, const rules::Finding&)> finding;
  std::function<void(const std::string&)> note;
};

class Collector {
 public:
  // `dir`: absolute; the folders of jobs lie in it.
  Collector(std::string dir, CollectorCallbacks callbacks, InboxLimits limits = {});

  // A parcel that a node has sent.
  Result<Receipt> take(const Parcel& parcel);
  // Finds new jobs, reads, judges: about four times a second. `now_ns`: any monotonic clock.
  void tick(int64_t now_ns);
  // It has judged a job, and all that it has seen are over.
  [[nodiscard]] bool is_idle() const { return judges_.empty() && !over_.empty(); }

 private:
  void find_jobs();

  const std::string dir_;
  const CollectorCallbacks callbacks_;
  Inbox inbox_;
  Boards boards_;
  std::map<std::string, std::unique_ptr<Judge>> judges_;  // by job
  std::set<std::string> over_;  // jobs that were judged to their end, and those that cannot be
  int64_t looked_ns_ = 0;
};

}  // namespace paramedic::nodes
