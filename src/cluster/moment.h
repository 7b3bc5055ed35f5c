#pragma once
// A look at the processes of a job. Plain values.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace paramedic::cluster {

// A process of the job that has a ring, as the agent sees it from outside.
struct RankProcess {
  int32_t rank = 0;
  int32_t pid = 0;
  uint64_t ring_id = 0;
  int32_t world_size = 1;
  bool closed = false;  // it ended in good order
  bool alive = false;
  char state = '?';          // as in /proc/PID/stat: R S D T Z; ? when it cannot be read
  std::string wait;          // the kernel function it sleeps in; "" when it runs or is not told
  uint64_t cpu_ms = 0;       // used by all of its threads up to now
  uint64_t tree_cpu_ms = 0;  // the same with its direct children
  uint64_t io_bytes = 0;     // read and written up to now, by whatever system call
  int64_t last_step = -1;
  int64_t last_step_time_ns = 0;
  // How it ended, where that can be learned: one of both.
  std::optional<int> exit_code;
  std::optional<int> exit_signal;
};

// One look at the job. Both outlive the call only.
struct Moment {
  int64_t time_ns = 0;                 // wall clock, as in Origin
  std::vector<RankProcess> processes;  // by rank, then in the order of their start
};

}  // namespace paramedic::cluster
