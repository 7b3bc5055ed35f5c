#include "supervise/process.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <map>
#include <set>
#include <sstream>

#include "base/file.h"
#include "base/lines.h"
#include "supervise/fd.h"

namespace paramedic::supervise {
namespace {

constexpr size_t kSmallFileBytesMax = 1024 * 1024;
constexpr const char* kProc = "/proc";
// A frozen copy of a process of the job (python/paramedic/recovery/snapshot.py).
constexpr const char* kStandbyName = "paramedic-stand";

}  // namespace

std::optional<std::string> read_small_file(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return std::nullopt;
  std::string text;
  char buffer[4096];
  while (text.size() < kSmallFileBytesMax) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got == 0) return text;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

// proc(5): (1) pid (2) comm (3) state (4) ppid (5) pgrp … (14) utime (15) stime … (20) num_threads
// … (22) starttime (23) vsize (24) rss.
std::optional<ProcessStat> parse_process_stat(const std::string& text) {
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  ProcessStat stat;
  std::istringstream head(text);
  std::istringstream fields(text.substr(name_end + 1));
  uint64_t skipped = 0;
  int64_t signed_skipped = 0;
  head >> stat.pid;
  if (const size_t begin = text.find('('); begin < name_end) {
    stat.name = text.substr(begin + 1, name_end - begin - 1);
  }
  fields >> stat.state >> stat.parent >> stat.group;
  for (int field = 6; field <= 8; ++field) fields >> signed_skipped;
  for (int field = 9; field <= 13; ++field) fields >> skipped;
  fields >> stat.user_ticks >> stat.system_ticks;
  for (int field = 16; field <= 19; ++field) fields >> signed_skipped;
  fields >> stat.threads >> signed_skipped >> stat.start_ticks >> skipped >> stat.resident_pages;
  if (head.fail() || fields.fail()) return std::nullopt;
  return stat;
}

std::optional<ProcessStat> read_process(const std::string& proc_root, pid_t pid) {
  const auto text = read_small_file(proc_root + "/" + std::to_string(pid) + "/stat");
  return text ? parse_process_stat(*text) : std::nullopt;
}

std::vector<pid_t> list_processes(const std::string& proc_root) {
  std::vector<pid_t> pids;
  const auto names = posix_file_system().list(proc_root);
  if (!names.ok()) return pids;
  for (const std::string& name : names.value()) {
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error == std::errc{} && end == name.data() + name.size()) pids.push_back(pid);
  }
  return pids;
}

std::vector<ProcessStat> job_processes(const std::string& proc_root, pid_t root_pid,
                                       const JobProcesses& which) {
  std::multimap<pid_t, ProcessStat> by_parent;
  std::vector<ProcessStat> found;
  std::set<pid_t> known;
  for (const pid_t pid : list_processes(proc_root)) {
    const auto process = read_process(proc_root, pid);
    if (!process) continue;  // it ended meanwhile
    if (process->name == kStandbyName && !which.with_frozen) continue;
    by_parent.emplace(process->parent, *process);
    const bool is_start = process->pid == root_pid || process->group == root_pid;
    if (is_start && known.insert(pid).second) found.push_back(*process);
  }
  for (size_t i = 0; i < found.size() && found.size() < which.most; ++i) {
    const auto [first, last] = by_parent.equal_range(found[i].pid);
    for (auto child = first; child != last; ++child) {
      if (known.insert(child->second.pid).second) found.push_back(child->second);
    }
  }
  return found;
}

std::optional<uint64_t> number_after(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    if (!line.starts_with(key)) continue;
    const size_t start = line.find_first_not_of(" \t:", key.size());
    // "oom" must not be taken for the start of "oom_kill".
    if (start == key.size() || start == std::string_view::npos) continue;
    uint64_t number = 0;
    const auto [end, error] =
        std::from_chars(line.data() + start, line.data() + line.size(), number);
    if (error == std::errc{}) return number;
  }
  return std::nullopt;
}

bool is_running(pid_t pid) {
  const auto stat = read_process(kProc, pid);
  return stat && stat->state != 'Z' && stat->state != 'X';
}

uint64_t start_ticks(pid_t pid) {
  const auto stat = read_process(kProc, pid);
  return stat ? stat->start_ticks : 0;
}

}  // namespace paramedic::supervise
