#pragma once
// How every rank stands: its process, what it tells when it does not come forward, and how it
// ended. One thread.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cluster/moment.h"
#include "store/rows.h"

namespace paramedic::cluster {

// What a rank told about itself while its main thread did not come forward (event `stalled`).
struct StallReport {
  struct Waiting {
    std::string group;
    int64_t sequence = -1;
    std::string operation;
  };
  // Of the framework's own flight recorder, for what is called below Python.
  struct Flight {
    int64_t last_enqueued = -1;
    int64_t last_completed = -1;
    std::string operation;  // of the one that is open; "" when none is

    [[nodiscard]] bool is_open() const { return last_enqueued > last_completed; }
  };
  int64_t time_ns = 0;
  int64_t since_ns = 0;
  std::optional<Waiting> waiting;
  std::string phase;
  bool evaluating = false;
  int64_t torch_calls = 0;             // since since_ns
  std::vector<store::CallSite> stack;  // innermost first
  std::map<std::string, Flight> flight;
};

// How a rank's interpreter ended, or that it is about to.
struct Exiting {
  int64_t time_ns = 0;
  bool has_exception = false;
  std::string type;
  std::string message;
  store::CallSite where;

  // "RuntimeError: " and the first line of its message.
  [[nodiscard]] std::string in_words() const;
};

struct Rank {
  RankProcess process;
  bool is_known = false;            // `process` has been looked at
  int64_t gone_since_ns = 0;        // first look at which it did not run any more
  std::deque<StallReport> reports;  // of the pause that goes on, oldest first
  std::optional<Exiting> exiting;
  std::optional<Exiting> last_raised;  // newest exception that was told, caught or not
  int64_t idle_since_ns = 0;           // 0: it is busy, or that is not known

  [[nodiscard]] bool is_gone() const { return is_known && !process.alive; }
  [[nodiscard]] const StallReport* stalled() const {
    return reports.empty() ? nullptr : &reports.back();
  }

  // How busy it was lately, in percent of one core, with its children; negative: not known.
  [[nodiscard]] double cpu_percent() const;
  // Bytes that it read and wrote lately.
  [[nodiscard]] uint64_t io_bytes() const;

  struct Look {
    int64_t time_ns = 0;
    uint64_t cpu_ms = 0;
    uint64_t io_bytes = 0;
  };
  std::deque<Look> looks;  // of the last seconds
};

class Ranks {
 public:
  void take(const store::EventRow& row);
  // The ranks that have been replaced by a new process since the last look.
  std::vector<int32_t> look(const Moment& moment);

  [[nodiscard]] const std::map<int32_t, Rank>& all() const { return ranks_; }
  [[nodiscard]] const Rank* find(int32_t rank) const;

 private:
  std::map<int32_t, Rank> ranks_;
};

// The innermost line of the job's own code; nothing when there is none. Standard library and
// installed packages are not the job's.
std::optional<store::CallSite> own_line(const std::vector<store::CallSite>& stack);
bool is_own_file(const std::string& file);
// Whether one of the frames down to the innermost own one is of this function.
bool is_inside(const std::vector<store::CallSite>& stack, const std::string& function);
// "train.py:41".
std::string place(const store::CallSite& site);

}  // namespace paramedic::cluster
