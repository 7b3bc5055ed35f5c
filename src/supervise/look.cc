#include "supervise/look.h"

#include <unistd.h>

#include <utility>

#include "supervise/process.h"

namespace paramedic::supervise {

cluster::Moment look_at(const std::map<int, RankState>& ranks, const std::string& proc_root,
                        int64_t time_ns) {
  static const auto kTicksASecond = static_cast<uint64_t>(::sysconf(_SC_CLK_TCK));
  cluster::Moment moment;
  moment.time_ns = time_ns;
  for (const auto& [number, state] : ranks) {
    cluster::RankProcess process;
    process.rank = number;
    process.pid = state.newest.pid;
    process.ring_id = state.newest.ring_id;
    process.world_size = state.newest.world_size;
    process.closed = state.newest.closed;
    process.alive = state.running;
    process.last_step = state.newest.last_step;
    process.last_step_time_ns = state.newest.last_step_time_ns;
    if (const auto stat = state.running ? read_process(proc_root, process.pid) : std::nullopt) {
      process.state = stat->state;
      process.cpu_ms = (stat->user_ticks + stat->system_ticks) * 1000 / kTicksASecond;
      // "0" is what the kernel says of a thread that does not sleep.
      const auto wait = read_small_file(proc_root + "/" + std::to_string(process.pid) + "/wchan");
      if (wait && *wait != "0") process.wait = *wait;
    }
    moment.processes.push_back(std::move(process));
  }
  return moment;
}

}  // namespace paramedic::supervise
