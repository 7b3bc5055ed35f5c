#pragma once
// The collector's side of a bucket: takes the parcels that nodes have put there, in their order,
// answers, and removes them. One thread.

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "nodes/bucket.h"
#include "nodes/parcel.h"

namespace paramedic::nodes {

class BucketReader {
 public:
  using Take = std::function<Result<Receipt>(const Parcel&)>;

  BucketReader(std::unique_ptr<Bucket> bucket, Take take)
      : bucket_(std::move(bucket)), take_(std::move(take)) {}

  // Everything that lies there now. What could not be stored or answered stays there and comes
  // again; the error is the first of them.
  Status read();

 private:
  // What stands in a node's answer.
  struct Answer {
    std::string receipt;  // without its number
    Json missed;          // the newest parcel that did not fit, until it has been read for sure
  };

  Status take(const std::string& name, const std::string& job, const std::string& node,
              uint64_t number);

  std::unique_ptr<Bucket> bucket_;
  Take take_;
  std::map<std::string, Answer> answers_;  // by node
};

// Reads once a second in a thread of its own, until it is destroyed: a bucket may be slow.
class BucketPoller {
 public:
  // `note` is told what went wrong, once in a row; it is called from the thread.
  BucketPoller(BucketReader reader, std::function<void(const std::string&)> note);
  BucketPoller(const BucketPoller&) = delete;
  BucketPoller& operator=(const BucketPoller&) = delete;
  ~BucketPoller();

 private:
  void run();

  BucketReader reader_;
  const std::function<void(const std::string&)> note_;
  std::mutex mutex_;
  std::condition_variable ends_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace paramedic::nodes
