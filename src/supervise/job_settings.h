#pragma once
// What the processes of the job were started with, as /proc has it: tells the store and the
// watches of every rank, task and launcher once (`environment`), of its end (`process_ended`), and
// of the hosts' part in it (`host`). One thread, the agent's, ten times a second: a look costs one
// small read unless a process has started since the last one.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "cluster/lint/setting.h"
#include "store/rows.h"
#include "supervise/process.h"

namespace paramedic::supervise {

// Finds the addresses of a name. It may take seconds, so it answers later.
class NameLookup {
 public:
  NameLookup() = default;
  NameLookup(const NameLookup&) = delete;
  NameLookup& operator=(const NameLookup&) = delete;
  virtual ~NameLookup() = default;
  // The numeric addresses of `name`, none when it has none; nothing while it is still asked for.
  virtual std::optional<std::vector<std::string>> addresses(const std::string& name) = 0;
};
// Asks the system, each name once, in threads of its own.
std::unique_ptr<NameLookup> system_lookup();

class JobSettings {
 public:
  JobSettings(std::string proc_root, const std::string& host, std::unique_ptr<NameLookup> lookup);

  // Emits what is new among the processes that come from `root_pid`.
  void look(int64_t time_ns, pid_t root_pid, store::RowSink& sink);
  // A process of the job is about to meet others at `port` of the host `address`, which it chose
  // by itself.
  void note_meeting(const std::string& address, int port);

 private:
  struct Known {
    uint64_t start_ticks = 0;
    bool is_told = false;
    int64_t first_ns = 0;
  };

  void find_processes(int64_t time_ns, pid_t root_pid, store::RowSink& sink);
  void look_at(int64_t time_ns, const ProcessStat& process, store::RowSink& sink);
  void find_ended(int64_t time_ns, store::RowSink& sink);
  [[nodiscard]] std::vector<int32_t> ancestors_of(pid_t pid) const;
  void note_wishes(const cluster::Setting& setting);
  void tell_host(int64_t time_ns, store::RowSink& sink);
  void look_up_names();
  void look_at_ports(int64_t time_ns);
  [[nodiscard]] cluster::Listener owner_of(uint64_t inode) const;

  const std::string proc_;
  const uint32_t salt_;
  const std::unique_ptr<NameLookup> lookup_;
  std::string newest_pid_;            // of the machine, when it was last looked
  std::map<pid_t, Known> known_;      // of the job
  std::map<pid_t, pid_t> parent_of_;  // of the job, as they were first seen
  std::map<pid_t, cluster::Setting> told_;
  std::set<std::string> names_;        // to be looked up
  std::set<int> ports_;                // to be watched
  std::map<int, uint64_t> seen_once_;  // port → inode of a listener that the last look found
  cluster::HostFacts host_;
  std::string told_host_;
  int64_t looked_at_ports_ns_ = 0;
  int64_t next_look_ns_ = 0;
};

}  // namespace paramedic::supervise
