#pragma once
// Keeps what the rows of a run tell of its processes' settings, and says which of them belong
// together. Each watch over configuration has one. Values; one thread.
//
// Rows it reads, all events: `environment` (a Setting) and `process_ended` {pid} and `host`
// (HostFacts) of the agent; `rendezvous` of the adapter {state: begun|done|failed, where,
// init_method, rank, world_size, master_addr, master_port, took_ms}.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cluster/lint/setting.h"
#include "rules/finding.h"
#include "store/rows.h"

namespace paramedic::cluster {

// How far a process has come in init_process_group.
struct Rendezvous {
  int64_t begun_ns = 0;
  int64_t done_ns = 0;  // 0: still inside
  bool failed = false;
  int32_t rank = -1;
  int32_t world_size = 0;
  std::string init_method;
  std::string endpoint;  // "ADDR:PORT"; "" where the method is another one
  std::string error;
  std::optional<rules::Where> where;
};

class SettingsBook {
 public:
  // Whether the row was one of those.
  bool take(const store::EventRow& row);

  // The jobs of the run that are worth judging: of at least two ranks or tasks, or with a
  // launcher. Processes of one job lived at the same time.
  [[nodiscard]] std::vector<JobSettings> jobs() const;
  // When the newest process was first seen; 0 before the first.
  [[nodiscard]] int64_t newest_ns() const { return newest_ns_; }
  // Counts the changes.
  [[nodiscard]] uint64_t version() const { return version_; }
  // Of a process; nullptr before it has begun.
  [[nodiscard]] const Rendezvous* rendezvous(int32_t pid) const;

 private:
  void take_host(const store::EventRow& row, HostFacts facts);
  void take_environment(const store::EventRow& row, const Json& json);
  void take_rendezvous(const store::EventRow& row, const Json& json);

  std::map<int32_t, Setting> processes_;  // by pid
  std::map<int32_t, Rendezvous> rendezvous_;
  std::map<std::string, HostFacts> hosts_;
  int64_t newest_ns_ = 0;
  uint64_t version_ = 0;
};

// The jobs that `processes` (ranks and tasks, no launchers) make: those whose ranks are complete
// under one meeting point are jobs of their own, the rest is taken for one.
std::vector<std::vector<Setting>> split_jobs(std::vector<Setting> processes);

}  // namespace paramedic::cluster
