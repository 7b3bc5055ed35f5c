#include "nodes/board.h"

#include <utility>

namespace paramedic::nodes {
namespace {

constexpr size_t kFindingsMax = 10'000;
constexpr size_t kAtATime = 50;

}  // namespace

void Board::post(const std::string& key, const Json& finding) {
  const std::scoped_lock lock(mutex_);
  const auto known = number_of_.find(key);
  if (known != number_of_.end()) {
    findings_.erase(known->second);
  } else if (findings_.size() >= kFindingsMax) {
    return;
  }
  number_of_[key] = ++posted_;
  findings_[posted_] = {key, finding};
}

void Board::settle(const std::string& node) {
  const std::scoped_lock lock(mutex_);
  settled_.insert(node);
}

void Board::fill(const std::string& node, uint64_t seen, Receipt& receipt) const {
  const std::scoped_lock lock(mutex_);
  receipt.findings_count = seen;
  auto at = findings_.upper_bound(seen);
  for (; at != findings_.end() && receipt.findings.size() < kAtATime; ++at) {
    receipt.findings.push_back(at->second);
    receipt.findings_count = at->first;
  }
  receipt.has_judged = settled_.contains(node) && at == findings_.end();
}

Board& Boards::of(const std::string& job) {
  const std::scoped_lock lock(mutex_);
  return boards_[job];
}

void Boards::fill(const Parcel& parcel, Receipt& receipt) {
  receipt.collector = collector_;
  // A job that was refused gets no board: names of jobs cost nothing.
  if (!receipt.refused.empty()) return;
  const uint64_t seen = parcel.collector == collector_ ? parcel.findings_seen : 0;
  of(parcel.job).fill(parcel.node, seen, receipt);
}

}  // namespace paramedic::nodes
