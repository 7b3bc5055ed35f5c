#pragma once
// The agent's work, whichever process does it: drains the rings of one run into its folder and
// through the rules, samples resources, and keeps run.json true. Calls no job and no terminal.
// One thread; `tick` about ten times a second.

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cluster/cluster.h"
#include "cluster/explained.h"
#include "rules/engine.h"
#include "store/run.h"
#include "supervise/collectors/collector.h"
#include "supervise/exits.h"
#include "supervise/job_settings.h"
#include "supervise/rings.h"

namespace paramedic::supervise {

// How the job ended; nothing is known of a job that was not our child.
struct Ending {
  std::string status;  // finished | failed | stopped | lost
  std::optional<int> exit_code;
  std::optional<int> signal;
  std::string said = {};  // why it could not even be started
};

struct AgentCallbacks {
  // A problem is new, or has become worse.
  std::function<void(const rules::Finding&)> finding;
  // Something could not be done: one sentence, each once.
  std::function<void(const std::string&)> note;
};

class Agent : public rules::FindingSink {
 public:
  // Makes the run folder `info.dir`. `may_rename`: when the folder exists, a number is appended.
  static Result<std::unique_ptr<Agent>> create(store::RunInfo info, uint64_t disk_bytes_max,
                                               bool may_rename, AgentCallbacks callbacks);
  ~Agent() override;

  // The job has started: `root_pid` and what comes from it are sampled from now on.
  void watch(pid_t root_pid) { root_pid_ = root_pid; }
  void tick();
  // Makes what was captured up to now readable, without waiting for its second; answers the newest
  // step, -1 before the first.
  int64_t flush_now();
  // Ranks that wait for a repair, none when none does, and why: written to run.json at once.
  struct PausedRank {
    int rank = 0;
    int pid = 0;
    std::string host;
  };
  void set_paused(std::vector<PausedRank> ranks, Json failure);
  // Stored at once.
  void add_repair(const store::RepairRow& row);
  // From now on the folder also tells how the processes stand (nodes/look.h), for a collector.
  void tell_looks() { tells_looks_ = true; }
  // Takes what is left, lets the rules decide, seals the run folder, and says why a job failed.
  void finish(const Ending& ending);

  [[nodiscard]] const store::RunInfo& info() const { return info_; }
  // As they stand now, in the order in which they appeared.
  [[nodiscard]] std::vector<rules::Finding> findings() const;

  void on_finding(const std::string& key, const rules::Finding& finding) override;

 private:
  class Fanout;
  struct KnownFinding {
    std::string key;
    rules::Finding finding;
  };

  Agent(store::RunInfo info, std::unique_ptr<store::RunWriter> writer, AgentCallbacks callbacks);
  void on_event(const store::EventRow& row);
  void on_rendezvous(const Json& rendezvous);
  void sample();
  void drain();
  void compare_ranks();
  void write_look(cluster::Moment moment, bool has_ended);
  void flush();
  void update_info();
  void mark_paused();
  void write_info();
  void judge_failure(const Ending& ending);
  void note_write_failure(const Status& status);
  void note_once(const std::string& text);

  store::RunInfo info_;
  const AgentCallbacks callbacks_;
  std::unique_ptr<store::RunWriter> writer_;
  cluster::Explained explained_;
  std::unique_ptr<rules::Engine> engine_;
  std::unique_ptr<cluster::Cluster> cluster_;
  std::unique_ptr<Fanout> fanout_;
  RingSet rings_;
  Exits exits_;
  JobSettings settings_;
  std::vector<std::unique_ptr<Collector>> collectors_;
  std::vector<KnownFinding> findings_;
  std::set<std::string> noted_;
  std::vector<PausedRank> paused_;
  Json failure_ = nullptr;  // of those that wait, or of the last process that was let fail
  pid_t root_pid_ = 0;
  int64_t sampled_ns_ = 0;
  int64_t compared_ns_ = 0;
  int64_t drained_wall_ns_ = 0;
  int64_t stored_wall_ns_ = 0;
  bool tells_looks_ = false;
  int64_t flushed_ns_ = 0;
  int64_t info_written_ns_ = 0;
  std::string written_info_;
  bool write_failed_ = false;
};

}  // namespace paramedic::supervise
