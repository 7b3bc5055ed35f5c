#pragma once
// What a collector has found about a job, for the nodes to fetch. Any thread.

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "nodes/parcel.h"

namespace paramedic::nodes {

class Board {
 public:
  // A finding that is new, or stands otherwise than before: the newest of a key counts.
  void post(const std::string& key, const Json& finding);
  // All that the node has sent up to its end has been judged.
  void settle(const std::string& node);

  // What has been posted after number `seen`, a few at a time.
  void fill(const std::string& node, uint64_t seen, Receipt& receipt) const;

 private:
  mutable std::mutex mutex_;
  uint64_t posted_ = 0;
  std::map<std::string, uint64_t> number_of_;      // by key
  std::map<uint64_t, Receipt::Finding> findings_;  // by number
  std::set<std::string> settled_;
};

// One for each job; they live as long as this.
class Boards {
 public:
  // `collector` tells this one from others, which count their findings anew.
  explicit Boards(std::string collector) : collector_(std::move(collector)) {}
  Board& of(const std::string& job);
  // Completes a receipt with what the parcel's node has not seen.
  void fill(const Parcel& parcel, Receipt& receipt);

 private:
  const std::string collector_;
  std::mutex mutex_;
  std::map<std::string, Board> boards_;
};

}  // namespace paramedic::nodes
