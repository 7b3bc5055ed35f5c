#pragma once
// What this host is, for the lint of configurations: interfaces, cores, accelerators, limits, and
// who listens on its ports. Any thread.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cluster/lint/setting.h"

namespace paramedic::supervise {

// All but names, listeners and the clock. `proc_root` as in process.h.
cluster::HostFacts read_host_facts(const std::string& host);

// The ports of this machine that somebody listens on, with the inode of the socket.
std::map<int32_t, uint64_t> listening_ports(const std::string& proc_root);

// Whether one of the files of `pid` is the socket `inode`.
bool holds_socket(const std::string& proc_root, int32_t pid, uint64_t inode);

// The words of a process's command line; none when it cannot be read.
std::vector<std::string> command_line(const std::string& proc_root, int32_t pid);

// The limits of a process that may be too small: open_files, locked_bytes (left out: unlimited).
std::map<std::string, double> read_limits(const std::string& proc_root, int32_t pid);

// The addresses of `name`, none when it has none. Blocks as long as the system's resolver does.
std::vector<std::string> resolve_name(const std::string& name);

}  // namespace paramedic::supervise
