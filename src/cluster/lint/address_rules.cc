// Where the ranks meet: MASTER_ADDR and MASTER_PORT.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "cluster/lint/launch_line.h"
#include "cluster/lint/lint.h"

namespace paramedic::cluster {
namespace {

using rules::Severity;

constexpr int64_t kPortMax = 65535;
constexpr int64_t kPrivilegedMax = 1023;

const std::vector<std::string>* looked_up(const JobSettings& job, const Setting& process,
                                          const std::string& name) {
  const HostFacts* facts = job.facts(process.host);
  if (facts == nullptr) return nullptr;
  const auto found = facts->names.find(name);
  return found == facts->names.end() ? nullptr : &found->second;
}

// Two spellings of one address are one address.
std::string address_of(const JobSettings& job, const Setting& process) {
  std::string text = value_or_empty(process, "MASTER_ADDR");
  if (is_loopback(text)) return "localhost";
  const auto* addresses = looked_up(job, process, text);
  if (addresses == nullptr || addresses->empty()) return text;
  const HostFacts* facts = job.facts(process.host);
  for (const std::string& address : *addresses) {
    if (is_loopback(address)) return "localhost";
    // On one host its own address and the loopback reach the same port.
    if (facts == nullptr || job.spans_hosts()) continue;
    for (const NetworkInterface& net : facts->interfaces) {
      if (std::find(net.addresses.begin(), net.addresses.end(), address) != net.addresses.end()) {
        return "localhost";
      }
    }
  }
  return *std::min_element(addresses->begin(), addresses->end());
}

void master_missing(const JobSettings& job, const Complain& complain) {
  for (const Setting* process : members_of(job)) {
    if (process->variable("RANK") == nullptr || process->world_size().value_or(1) < 2) continue;
    for (const char* name : {"MASTER_ADDR", "MASTER_PORT"}) {
      if (!value_or_empty(*process, name).empty()) continue;
      complain({process,
                name,
                fmt::format("{} has RANK and WORLD_SIZE, but no {}", process->name, name),
                {}});
    }
  }
}

void differs(const JobSettings& job, const Complain& complain, const char* name,
             const ValueOf& value_of) {
  std::vector<const Setting*> with;
  for (const Setting* process : members_of(job)) {
    if (!value_or_empty(*process, name).empty()) with.push_back(process);
  }
  const Odd odd = odd_ones(with, value_of);
  for (const Setting* process : odd.processes) {
    complain({process,
              name,
              fmt::format("{} is {} on {} and {} on the others", name,
                          value_or_empty(*process, name), process->name, odd.majority),
              {fmt::format("{} looks for the others where they are not, and they wait for it",
                           process->name)}});
  }
  std::set<std::string> values;
  for (const Setting* process : with) values.insert(value_of(*process));
  if (!odd.processes.empty() || values.size() < 2) return;
  complain({nullptr,
            name,
            fmt::format("{} differs between the ranks: {}", name, fmt::join(values, ", ")),
            {fmt::format("{} is {}", name, who_has_what(with, value_of))}});
}

void master_addr_differs(const JobSettings& job, const Complain& complain) {
  differs(job, complain, "MASTER_ADDR",
          [&](const Setting& process) { return address_of(job, process); });
}

void master_port_differs(const JobSettings& job, const Complain& complain) {
  differs(job, complain, "MASTER_PORT",
          [](const Setting& process) { return value_or_empty(process, "MASTER_PORT"); });
}

// `complain_of` gets each distinct MASTER_ADDR with those that have it; the complaint names the
// process where only one is of several.
void each_address(
    const JobSettings& job,
    const std::function<void(const std::string&, const Setting&, bool)>& complain_of) {
  std::map<std::string, std::vector<const Setting*>> by_address;
  const auto ranks = members_of(job);
  for (const Setting* process : ranks) {
    const std::string address = value_or_empty(*process, "MASTER_ADDR");
    if (!address.empty()) by_address[address].push_back(process);
  }
  for (const auto& [address, same] : by_address) {
    complain_of(address, *same.front(), same.size() == 1 && ranks.size() > 1);
  }
}

void master_addr_unknown(const JobSettings& job, const Complain& complain) {
  each_address(job, [&](const std::string& address, const Setting& process, bool is_one) {
    const auto* addresses = looked_up(job, process, address);
    if (addresses == nullptr || !addresses->empty()) return;
    const std::string on = process.host.empty() ? "this host" : process.host;
    Complaint complaint{is_one ? &process : nullptr,
                        "MASTER_ADDR",
                        fmt::format("MASTER_ADDR {} of {} cannot be resolved on {}", address,
                                    is_one ? process.name : "all ranks", on),
                        {}};
    if (address.find_first_of(" \t\"':/") != std::string::npos) {
      complaint.evidence.emplace_back("it is no host name: a scheme, a port or a quote is in it");
    }
    complain(std::move(complaint));
  });
}

void master_addr_loopback(const JobSettings& job, const Complain& complain) {
  if (!job.spans_hosts()) return;
  each_address(job, [&](const std::string& address, const Setting&, bool) {
    if (!is_loopback(address)) return;
    complain({nullptr,
              "MASTER_ADDR",
              fmt::format("MASTER_ADDR is {}, but the ranks run on several hosts", address),
              {}});
  });
}

bool is_docker(const std::string& address) { return address.starts_with("172.17."); }

void master_addr_docker(const JobSettings& job, const Complain& complain) {
  if (!job.spans_hosts()) return;
  each_address(job, [&](const std::string& address, const Setting& process, bool) {
    const auto* addresses = looked_up(job, process, address);
    const bool resolves_so =
        addresses != nullptr && addresses->size() == 1 && is_docker(addresses->front());
    if (!is_docker(address) && !resolves_so) return;
    complain({nullptr,
              "MASTER_ADDR",
              fmt::format("MASTER_ADDR {} is on the bridge of Docker, which other hosts cannot "
                          "reach",
                          address),
              {}});
  });
}

void master_addr_ipv6_only(const JobSettings& job, const Complain& complain) {
  if (!job.spans_hosts()) return;
  each_address(job, [&](const std::string& address, const Setting& process, bool) {
    const auto* addresses = looked_up(job, process, address);
    if (addresses == nullptr || addresses->empty()) return;
    const bool only = std::all_of(addresses->begin(), addresses->end(), [](const auto& text) {
      return text.find(':') != std::string::npos;
    });
    if (!only) return;
    complain({nullptr,
              "MASTER_ADDR",
              fmt::format("MASTER_ADDR {} has IPv6 addresses only: {}", address,
                          fmt::join(*addresses, ", ")),
              {}});
  });
}

void master_port_invalid(const JobSettings& job, const Complain& complain) {
  for (const Setting* process : members_of(job)) {
    const std::string text = value_or_empty(*process, "MASTER_PORT");
    if (text.empty()) continue;
    const auto port = whole_number(text);
    if (port && *port > 0 && *port <= kPortMax) continue;
    complain({process,
              "MASTER_PORT",
              fmt::format("MASTER_PORT of {} is '{}', which is no port "
                          "from 1 to {}",
                          process->name, text, kPortMax),
              {}});
  }
}

void master_port_privileged(const JobSettings& job, const Complain& complain) {
  for (const Setting* process : members_of(job)) {
    const auto port = process->number("MASTER_PORT");
    if (!port || *port < 1 || *port > kPrivilegedMax) continue;
    complain({nullptr,
              "MASTER_PORT",
              fmt::format("MASTER_PORT {} needs the rights of root: those below 1024 do", *port),
              {}});
    return;
  }
}

// Whether `pid` takes part in what the process belongs to: itself, who started it, its children.
bool is_related(const JobSettings& job, const Setting& process, int32_t pid) {
  const auto& above = process.ancestors;
  if (pid == process.pid || std::find(above.begin(), above.end(), pid) != above.end()) return true;
  return std::any_of(job.processes.begin(), job.processes.end(), [&](const Setting& other) {
    return other.pid == pid && other.number("MASTER_PORT") == process.number("MASTER_PORT");
  });
}

// Facts come from a time when rank 0 could not have opened the port, or name who did.
void master_port_busy(const JobSettings& job, const Complain& complain) {
  std::set<int64_t> told;
  for (const Setting& process : job.processes) {
    const HostFacts* facts = job.facts(process.host);
    if (facts == nullptr) continue;
    const bool binds = process.is_launcher() || process.rank().value_or(1) == 0;
    const int64_t port = process.is_launcher() ? parse_launch(process).store_port()
                                               : process.number("MASTER_PORT").value_or(0);
    const auto found = facts->listeners.find(static_cast<int32_t>(port));
    if (!binds || found == facts->listeners.end()) continue;
    const Listener& listener = found->second;
    // Who has ended holds no port: what came there after him is the next job.
    if (process.last_ns != 0 && (listener.since_ns == 0 || listener.since_ns >= process.last_ns)) {
      continue;
    }
    if (is_related(job, process, listener.pid) || !told.insert(port).second) continue;
    const std::string who = listener.pid == 0
                                ? "a process that is not of this job"
                                : fmt::format("{} (pid {})", listener.command, listener.pid);
    complain(
        {process.is_launcher() ? nullptr : &process,
         "MASTER_PORT",
         fmt::format("port {}, where {} shall listen, is taken by {}", port, process.name, who),
         {}});
  }
}

}  // namespace

std::vector<LintRule> address_rules() {
  constexpr auto kSure = LintGrade::kSure;
  constexpr auto kAdvice = LintGrade::kAdvice;
  constexpr const char* kConfig = "cluster_config";
  return {
      {"master_missing", kConfig, Severity::kWarning, kAdvice,
       "who has a RANK has MASTER_ADDR and MASTER_PORT",
       "set both on all ranks, unless init_process_group gets an init_method of its own",
       master_missing},
      {"master_addr_differs", kConfig, Severity::kError, kSure, "all ranks have one MASTER_ADDR",
       "set MASTER_ADDR to the host of rank 0 on all ranks", master_addr_differs},
      {"master_port_differs", kConfig, Severity::kError, kSure, "all ranks have one MASTER_PORT",
       "set the same MASTER_PORT on all ranks", master_port_differs},
      {"master_addr_unknown", kConfig, Severity::kError, kSure, "MASTER_ADDR can be resolved",
       "use an address or a name that every host resolves (/etc/hosts, DNS); with torchrun "
       "--local-addr or a static rendezvous",
       master_addr_unknown},
      {"master_addr_loopback", kConfig, Severity::kError, kSure,
       "MASTER_ADDR is no loopback when there are several hosts",
       "set MASTER_ADDR to an address of rank 0's host that the others reach",
       master_addr_loopback},
      {"master_addr_docker", kConfig, Severity::kWarning, kAdvice,
       "MASTER_ADDR is not on Docker's bridge",
       "use the host's own address, and name its interface in *_SOCKET_IFNAME", master_addr_docker},
      {"master_addr_ipv6_only", kConfig, Severity::kWarning, kAdvice,
       "MASTER_ADDR has an IPv4 address", "use a name with an IPv4 address, or the address itself",
       master_addr_ipv6_only},
      {"master_port_invalid", kConfig, Severity::kError, kSure, "MASTER_PORT is a port",
       "choose a free port from 1024 to 65535, such as 29500", master_port_invalid},
      {"master_port_privileged", kConfig, Severity::kWarning, kAdvice, "MASTER_PORT is above 1023",
       "choose a port from 1024 to 65535", master_port_privileged},
      {"master_port_busy", "port_in_use", Severity::kError, kSure, "MASTER_PORT is free",
       "choose another port, or end the process that holds it (often a job that was not quite "
       "ended)",
       master_port_busy},
  };
}

}  // namespace paramedic::cluster
