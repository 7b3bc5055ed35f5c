#include "supervise/look.h"

#include <sys/wait.h>
#include <unistd.h>

#include <sstream>
#include <utility>

#include "supervise/process.h"

namespace paramedic::supervise {
namespace {

// More children than this are no workers of a data loader.
constexpr int kChildrenMax = 64;

uint64_t cpu_ms(const ProcessStat& stat) {
  static const auto kTicksASecond = static_cast<uint64_t>(::sysconf(_SC_CLK_TCK));
  return (stat.user_ticks + stat.system_ticks) * 1000 / kTicksASecond;
}

// What its data loader's workers and the like have used.
uint64_t children_cpu_ms(const std::string& folder, const std::string& proc_root, pid_t pid) {
  const auto text = read_small_file(folder + "/task/" + std::to_string(pid) + "/children");
  if (!text) return 0;
  std::istringstream children(*text);
  uint64_t total_ms = 0;
  pid_t child = 0;
  for (int i = 0; i < kChildrenMax && children >> child; ++i) {
    if (const auto stat = read_process(proc_root, child)) total_ms += cpu_ms(*stat);
  }
  return total_ms;
}

void look_at_process(const std::string& proc_root, cluster::RankProcess& process) {
  const auto stat = read_process(proc_root, process.pid);
  if (!stat) return;
  const std::string folder = proc_root + "/" + std::to_string(process.pid);
  process.state = stat->state;
  process.cpu_ms = cpu_ms(*stat);
  process.tree_cpu_ms = process.cpu_ms + children_cpu_ms(folder, proc_root, process.pid);
  // "0" is what the kernel says of a thread that does not sleep.
  const auto wait = read_small_file(folder + "/wchan");
  if (wait && *wait != "0") process.wait = *wait;
  if (const auto io = read_small_file(folder + "/io")) {
    process.io_bytes =
        number_after(*io, "rchar").value_or(0) + number_after(*io, "wchar").value_or(0);
  }
}

}  // namespace

cluster::Moment look_at(const std::map<int, RankState>& ranks, const std::string& proc_root,
                        int64_t time_ns, Exits& exits) {
  cluster::Moment moment;
  moment.time_ns = time_ns;
  for (const auto& [number, state] : ranks) {
    const store::RingImporter::State& told = state.current;
    cluster::RankProcess process;
    process.rank = number;
    process.pid = told.pid;
    process.ring_id = told.ring_id;
    process.world_size = told.world_size;
    process.closed = told.closed;
    process.alive = state.running;
    process.last_step = told.last_step;
    process.last_step_time_ns = told.last_step_time_ns;
    if (state.running) {
      exits.follow(process.pid);
      look_at_process(proc_root, process);
    } else if (const auto status = exits.wait_status(process.pid)) {
      if (WIFSIGNALED(*status)) process.exit_signal = WTERMSIG(*status);
      if (WIFEXITED(*status)) process.exit_code = WEXITSTATUS(*status);
    }
    moment.processes.push_back(std::move(process));
  }
  return moment;
}

}  // namespace paramedic::supervise
