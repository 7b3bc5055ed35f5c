#pragma once
// What the processes of a job were started with, and what is known of their hosts: the input of
// the lint rules and of the watches over configuration. Values; made by the agent from /proc, by
// `cluster lint` from files, by tests by hand.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace paramedic::cluster {

// `NAME=VALUE` as a line of the script that started the process has it.
struct Assignment {
  int32_t line = 0;
  std::string name;
  std::string value;
};

// One process: a rank, or a launcher of ranks.
struct Setting {
  std::string name;  // as messages call it: "rank 2", "worker:1", the name of a file
  std::string host;
  int32_t pid = 0;
  std::vector<int32_t> ancestors;                // pids, nearest first
  std::map<std::string, std::string> variables;  // those that may be shown
  std::map<std::string, std::string> digests;    // of all others: what tells values apart
  std::vector<std::string> launch;               // the command line of a launcher, up to its script
  std::map<std::string, double> limits;          // "open_files", "locked_bytes"
  std::string script;                            // the shell script that started it
  std::vector<Assignment> assignments;           // in that script
  int64_t first_ns = 0;                          // when it was first seen, wall clock
  int64_t last_ns = 0;                           // when it was gone; 0 while it runs

  [[nodiscard]] const std::string* variable(const std::string& variable_name) const;
  // A variable as a whole number; nothing when it is missing or none.
  [[nodiscard]] std::optional<int64_t> number(const std::string& variable_name) const;
  // As the launcher told it: torchrun, Ray and Kubeflow (RANK), Open MPI, MPICH, MVAPICH, Horovod,
  // jsrun, Flux or Slurm.
  [[nodiscard]] std::optional<int64_t> rank() const;
  [[nodiscard]] std::optional<int64_t> world_size() const;
  [[nodiscard]] bool is_launcher() const { return !launch.empty(); }

  [[nodiscard]] Json to_json() const;
  static Setting from_json(const Json& json);
};

struct NetworkInterface {
  std::string name;
  std::vector<std::string> addresses;  // numeric
  int32_t mtu = 0;                     // 0 = not known
};

// What listens on a port of a host.
struct Listener {
  int32_t pid = 0;  // 0 = not known
  std::string command;
  int64_t since_ns = 0;  // when it was first seen there; 0 = not known
};

// What is not known is left out or empty: a rule that needs it says nothing then.
struct HostFacts {
  std::string host;
  int32_t cores = 0;
  std::optional<int32_t> devices;  // accelerators
  std::vector<NetworkInterface> interfaces;
  std::map<std::string, std::vector<std::string>> names;  // looked up: no address = none found
  std::map<int32_t, Listener> listeners;                  // by port
  std::optional<uint64_t> shared_memory_bytes;            // size of /dev/shm
  std::optional<double> clock_offset_ms;                  // against the first host
  bool has_infiniband = false;

  [[nodiscard]] const NetworkInterface* interface(const std::string& interface_name) const;
  [[nodiscard]] Json to_json() const;
  static HostFacts from_json(const Json& json);
};

// The processes that belong together.
struct JobSettings {
  std::vector<Setting> processes;
  std::vector<HostFacts> hosts;

  // Facts of a host; nothing when there are none.
  [[nodiscard]] const HostFacts* facts(const std::string& host) const;
  // More than one host is known of, or the processes' own variables say so.
  [[nodiscard]] bool spans_hosts() const;
};

// Whether the value of a variable may be stored and shown: known to the frameworks, never one
// that looks like a secret.
bool may_show(std::string_view variable);

// A whole number without anything around it.
std::optional<int64_t> whole_number(std::string_view text);

bool is_loopback(const std::string& address);

}  // namespace paramedic::cluster
