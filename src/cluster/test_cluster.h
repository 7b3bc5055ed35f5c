#pragma once
// For tests: a cluster whose rows are made by hand, and what it finds.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cluster/cluster.h"

namespace paramedic::cluster {

// The newest finding of each key, in the order in which the keys appeared.
class Found : public rules::FindingSink {
 public:
  void on_finding(const std::string& key, const rules::Finding& finding) override {
    for (auto& [known, newest] : findings_) {
      if (known != key) continue;
      newest = finding;
      return;
    }
    findings_.emplace_back(key, finding);
  }
  [[nodiscard]] std::vector<rules::Finding> all() const {
    std::vector<rules::Finding> all;
    for (const auto& [key, finding] : findings_) all.push_back(finding);
    return all;
  }
  [[nodiscard]] std::vector<rules::Finding> of(const std::string& id) const {
    std::vector<rules::Finding> some;
    for (const auto& [key, finding] : findings_) {
      if (finding.id == id) some.push_back(finding);
    }
    return some;
  }

 private:
  std::vector<std::pair<std::string, rules::Finding>> findings_;
};

// A process of `rank` that runs; its ring and pid follow from the rank.
inline RankProcess process_of(int32_t rank, int32_t world_size) {
  RankProcess process;
  process.rank = rank;
  process.pid = 1000 + rank;
  process.ring_id = 100 + rank;
  process.world_size = world_size;
  process.alive = true;
  process.state = 'S';
  return process;
}

inline store::Origin origin_of(int32_t rank, int64_t time_ns, int64_t step = -1) {
  store::Origin origin;
  origin.rank = rank;
  origin.pid = 1000 + rank;
  origin.ring_id = 100 + rank;
  origin.time_ns = time_ns;
  origin.step = step;
  return origin;
}

}  // namespace paramedic::cluster
