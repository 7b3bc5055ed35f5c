#pragma once
// What /proc tells about one process. The root of /proc can be another folder (tests). Any thread.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paramedic::supervise {

// From /proc/PID/stat. Times are in clock ticks (sysconf(_SC_CLK_TCK)).
struct ProcessStat {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  std::string name;
  char state = '?';  // R, S, D, T, Z, …
  uint64_t user_ticks = 0;
  uint64_t system_ticks = 0;
  int64_t threads = 0;
  uint64_t start_ticks = 0;  // since the machine started: tells a pid that is used again
  int64_t resident_pages = 0;
};

std::optional<ProcessStat> read_process(const std::string& proc_root, pid_t pid);
// The same from the file's text: fields after the name, which may hold spaces and brackets.
std::optional<ProcessStat> parse_process_stat(const std::string& text);

// A small file's whole text; nothing when it cannot be read. At most 1 MiB.
std::optional<std::string> read_small_file(const std::string& path);

// The numbers of all processes under `proc_root`, in no order.
std::vector<pid_t> list_processes(const std::string& proc_root);

// Which processes of a job are meant.
struct JobProcesses {
  // Whether the frozen copies count that recovery keeps of processes: they share their memory.
  bool with_frozen = false;
  // Of a job that starts more processes than this, the first ones are looked at.
  size_t most = 4096;
};

// The job's first process, its descendants, and its process group, which whoever has lost his
// parent is still in.
std::vector<ProcessStat> job_processes(const std::string& proc_root, pid_t root_pid,
                                       const JobProcesses& which = {});

// The number after `key` at the start of a line ("oom_kill 3", "MemTotal:  16 kB"); nothing when
// there is no such line.
std::optional<uint64_t> number_after(std::string_view text, std::string_view key);

// Whether it runs: a zombie does not.
bool is_running(pid_t pid);
uint64_t start_ticks(pid_t pid);  // 0 when it does not exist

}  // namespace paramedic::supervise
