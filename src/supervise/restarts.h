#pragma once
// Which death of the job is followed by a restart, from which snapshot, and how far that has come.
// It watches no process itself. One thread, the supervisor's.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/json.h"
#include "supervise/snapshot_page.h"

namespace paramedic::supervise {

struct RestartOptions {
  int limit = 0;  // 0: never
  std::string ring_dir;
  std::string run_id;
};

class Restarts {
 public:
  explicit Restarts(RestartOptions options) : options_(std::move(options)) {}
  Restarts(const Restarts&) = delete;
  Restarts& operator=(const Restarts&) = delete;
  // Leaves no copy standing by and no page behind.
  ~Restarts();

  // The job's process `pid` has died with `wait_status`. True: its newest snapshot is to go on.
  // False: it stays dead; `reason` then says why where that is worth a word.
  bool begin(pid_t pid, int wait_status);
  // From `begin` until the copy has answered that it goes on.
  [[nodiscard]] bool is_under_way() const { return current_.has_value() && !current_->goes_on; }
  [[nodiscard]] bool is_ordered() const { return is_under_way() && current_->is_ordered; }
  [[nodiscard]] bool is_overdue() const;
  [[nodiscard]] const Snapshot& snapshot() const { return current_->snapshot; }
  // What the first process died of, while a restart is under way.
  [[nodiscard]] int wait_status() const { return current_->wait_status; }

  // All that the dead process had written was copied: the copy may go on.
  void order();
  // True once, when it has answered that it does.
  bool is_answered();
  // The copy died without going on.
  void give_up();

  [[nodiscard]] const std::string& reason() const { return reason_; }
  // What was done, for the user and for the agent, after `is_answered`.
  [[nodiscard]] std::string note() const;
  [[nodiscard]] Json message() const;

 private:
  struct Current {
    SnapshotPage page;
    Snapshot snapshot;
    pid_t dead = 0;
    int wait_status = 0;
    int64_t died_ns = 0;
    double took_ms = 0;
    bool is_ordered = false;
    bool goes_on = false;
  };

  const RestartOptions options_;
  std::optional<Current> current_;
  std::string reason_;
  int count_ = 0;
};

// "SIGKILL"; "signal 40" for one without a name.
std::string signal_name(int signal);

}  // namespace paramedic::supervise
