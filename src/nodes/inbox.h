#pragma once
// Takes what nodes send and appends it to their parts of the run folder: JOB/nodes/NODE. Knows
// nothing of the transport: a shared folder is written by the same code. Any thread; parcels of
// one node are taken one after another.

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "nodes/parcel.h"

namespace paramedic::nodes {

struct InboxLimits {
  uint64_t job_bytes_max = 64ULL << 30;  // stored of one job in one lifetime of the inbox
  size_t jobs_max = 1000;
  size_t nodes_max = 16'384;   // of one job
  size_t files_max = 200'000;  // of one node
};

class Inbox {
 public:
  // `dir` holds the folders of jobs.
  explicit Inbox(std::string dir, InboxLimits limits = {})
      : dir_(std::move(dir)), limits_(limits) {}

  // Appends the pieces that fit to what is there; pieces that have come already are passed over.
  // Where one does not fit, the receipt tells how much of each file is there, and neither the later
  // pieces nor info and look are taken. A parcel that may not be taken at all is refused in the
  // receipt; the Status tells of our own disk. Times and findings are not filled in.
  Result<Receipt> take(const Parcel& parcel);

 private:
  struct Job {
    size_t nodes = 0;
    std::atomic<uint64_t> bytes = 0;
  };
  struct Node {
    explicit Node(Job& of_job) : job(of_job) {}
    Job& job;
    std::mutex mutex;
    bool is_listed = false;
    std::map<std::string, uint64_t> sizes;  // by file
  };

  // Nothing when the parcel is to be refused, which the receipt says then.
  Node* node_of(const Parcel& parcel, Receipt& receipt);
  [[nodiscard]] std::string part_of(const Parcel& parcel) const {
    return dir_ + "/" + parcel.job + "/nodes/" + parcel.node;
  }
  [[nodiscard]] bool comes_too_late(const Parcel& parcel) const;
  // Answers whether all of them fitted.
  Result<bool> append_pieces(const Parcel& parcel, Node& node, Receipt& receipt);

  const std::string dir_;
  const InboxLimits limits_;
  std::mutex mutex_;                   // of the maps
  std::map<std::string, Job> jobs_;    // by name; never removed
  std::map<std::string, Node> nodes_;  // by JOB/NODE; never removed
};

}  // namespace paramedic::nodes
