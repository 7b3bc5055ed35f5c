#pragma once
// Brings a node's part of a job to its collector while the job runs: a process of its own beside
// the agent, so that nothing of the network is ever waited for by those who drain rings. What it
// has to send lies in the run folder; without a collector it waits, and nothing is lost.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "nodes/clock_filter.h"
#include "nodes/outbox.h"
#include "nodes/transport.h"

namespace paramedic::nodes {

struct CourierOptions {
  std::string run_dir;
  std::string job;
  std::string node;
};

struct CourierCallbacks {
  // What the collector has found, new or worse.
  std::function<void(const Receipt::Finding&)> finding;
  std::function<void(const std::string&)> note;
};

class Courier {
 public:
  Courier(CourierOptions options, std::unique_ptr<Transport> transport, CourierCallbacks callbacks);

  // One parcel, where there is something to send or to ask for. Answers after how long to call
  // again, in milliseconds; 0: at once.
  int step();
  // The run has ended, and the collector has all of it, or refuses it for good.
  [[nodiscard]] bool has_delivered() const { return has_delivered_; }
  // The same, and the collector has judged it too.
  [[nodiscard]] bool is_done() const { return is_done_; }

 private:
  Parcel next_parcel();
  void read_info();
  std::string look_with_clock();
  int failed(const Status& status);
  void take(const Parcel& parcel, const Receipt& receipt);
  void tell_findings(const Receipt& receipt);

  const CourierOptions options_;
  const std::unique_ptr<Transport> transport_;
  const CourierCallbacks callbacks_;
  Outbox outbox_;
  ClockFilter clock_;
  bool is_connected_ = false;  // the collector has told what it has
  bool was_told_lost_ = false;
  std::string info_;       // run.json as it was read last
  std::string sent_info_;  // as it was sent last
  bool has_ended_ = false;
  bool is_all_ = false;  // the newest parcel brings everything up to the end of the run
  bool has_delivered_ = false;
  bool is_done_ = false;
  int failures_ = 0;
  std::string collector_;
  uint64_t findings_seen_ = 0;
};

}  // namespace paramedic::nodes
