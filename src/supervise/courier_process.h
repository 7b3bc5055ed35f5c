#pragma once
// The agent's part in a job of several nodes: starts the courier, which brings the run folder to a
// collector, and where it is asked to the collector itself. Both are processes of their own, so
// that the agent never waits for the network. One thread.

#include <functional>
#include <string>

#include "rules/finding.h"
#include "supervise/messages.h"

namespace paramedic::supervise {

// How this node takes part in a job of several nodes; see `paramedic run --help`.
struct CollectorOptions {
  std::string address;  // "" = the job has no collector
  std::string job;      // the same on all nodes
  std::string token_file;
  std::string tls_roots;    // a file
  bool starts_one = false;  // the node with rank 0 starts the collector too
};

class CourierProcess {
 public:
  struct Callbacks {
    // Of the collector: all ranks of the job have been compared.
    std::function<void(const std::string& key, const rules::Finding&)> finding;
    std::function<void(const std::string&)> note;
  };

  // `runs_dir`: where a collector that is started puts the job.
  CourierProcess(const CollectorOptions& options, std::string runs_dir, Callbacks callbacks);

  // For the run in `run_dir`, on this machine.
  void start(const std::string& run_dir, const std::string& run_id, const std::string& host);
  // This node has rank 0. The first call counts.
  void start_collector(const std::string& run_dir);

  [[nodiscard]] int fd() const { return messages_.fd(); }
  // What has come from the courier.
  void serve();
  // The run has ended: waits until the collector has judged it, but not for long. The courier goes
  // on by itself where it has not brought everything yet.
  void finish();

 private:
  void take(const Json& message);

  const CollectorOptions& options_;
  const std::string runs_dir_;
  const Callbacks callbacks_;
  MessageSocket messages_{Fd()};
  bool has_started_collector_ = false;
};

}  // namespace paramedic::supervise
