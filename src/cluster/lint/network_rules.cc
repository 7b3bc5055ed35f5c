// Which network interfaces are used: NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME, and their like.

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "cluster/lint/lint.h"

namespace paramedic::cluster {
namespace {

using rules::Severity;

constexpr std::array kVariables = {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME",
                                   "HOROVOD_GLOO_IFACE"};

// NCCL's form: a comma list of prefixes, "=" in front for exact names, "^" for all but these.
struct Choice {
  bool excludes = false;
  bool exact = false;
  std::vector<std::string> names;
};

Choice parse_choice(const std::string& variable, std::string text) {
  Choice choice;
  // Only NCCL takes prefixes.
  choice.exact = variable != std::string("NCCL_SOCKET_IFNAME");
  if (text.starts_with('^')) {
    choice.excludes = true;
    text.erase(0, 1);
  }
  if (text.starts_with('=')) {
    choice.exact = true;
    text.erase(0, 1);
  }
  std::istringstream words(text);
  for (std::string name; std::getline(words, name, ',');) {
    if (!name.empty()) choice.names.push_back(name);
  }
  return choice;
}

std::vector<const NetworkInterface*> chosen(const HostFacts& facts, const Choice& choice) {
  std::vector<const NetworkInterface*> nets;
  for (const NetworkInterface& net : facts.interfaces) {
    const bool named = std::any_of(choice.names.begin(), choice.names.end(), [&](const auto& name) {
      return choice.exact ? net.name == name : net.name.starts_with(name);
    });
    if (named != choice.excludes) nets.push_back(&net);
  }
  return nets;
}

// Calls `tell` for each rank and variable that is set.
void each_choice(const JobSettings& job,
                 const std::function<void(const Setting&, const char*, const Choice&)>& tell) {
  for (const Setting* process : members_of(job)) {
    for (const char* variable : kVariables) {
      const std::string text = value_or_empty(*process, variable);
      if (!text.empty()) tell(*process, variable, parse_choice(variable, text));
    }
  }
}

void interface_absent(const JobSettings& job, const Complain& complain) {
  std::map<std::pair<std::string, std::string>, std::vector<const Setting*>> wrong;
  each_choice(job, [&](const Setting& process, const char* variable, const Choice& choice) {
    const HostFacts* facts = job.facts(process.host);
    if (choice.excludes || facts == nullptr || facts->interfaces.empty()) return;
    if (!chosen(*facts, choice).empty()) return;
    wrong[{variable, value_or_empty(process, variable)}].push_back(&process);
  });
  const size_t ranks = members_of(job).size();
  for (const auto& [what, processes] : wrong) {
    const HostFacts* facts = job.facts(processes.front()->host);
    std::vector<std::string> names;
    for (const NetworkInterface& net : facts->interfaces) names.push_back(net.name);
    const bool all = processes.size() == ranks && ranks > 1;
    const std::string who = all ? "all ranks" : processes.front()->name;
    Complaint complaint{all ? nullptr : processes.front(),
                        what.first,
                        fmt::format("{}={} of {} names an interface that this host does not have",
                                    what.first, what.second, who),
                        {fmt::format("it has {}", fmt::join(names, ", "))}};
    for (size_t i = 0; i < (all ? 1 : processes.size()); ++i) {
      if (!all) complaint.process = processes[i];
      complain(complaint);
    }
  }
}

void interface_leaves_loopback(const JobSettings& job, const Complain& complain) {
  std::set<std::string> told;
  each_choice(job, [&](const Setting& process, const char* variable, const Choice& choice) {
    const auto& names = choice.names;
    if (!choice.excludes || std::find(names.begin(), names.end(), "lo") != names.end()) return;
    const std::string text = value_or_empty(process, variable);
    if (!told.insert(text).second) return;
    complain({nullptr,
              variable,
              fmt::format("{}={} leaves the loopback interface eligible", variable, text),
              {}});
  });
}

void interface_loopback_between_hosts(const JobSettings& job, const Complain& complain) {
  if (!job.spans_hosts()) return;
  each_choice(job, [&](const Setting& process, const char* variable, const Choice& choice) {
    const bool only = !choice.excludes && choice.names.size() == 1 && choice.names[0] == "lo";
    if (!only) return;
    complain(
        {&process,
         variable,
         fmt::format("{} of {} is lo, but the ranks run on several hosts", variable, process.name),
         {}});
  });
}

void interfaces_disagree(const JobSettings& job, const Complain& complain) {
  for (const Setting* process : members_of(job)) {
    const std::string nccl = value_or_empty(*process, "NCCL_SOCKET_IFNAME");
    const std::string gloo = value_or_empty(*process, "GLOO_SOCKET_IFNAME");
    const Choice of_nccl = parse_choice("NCCL_SOCKET_IFNAME", nccl);
    const Choice of_gloo = parse_choice("GLOO_SOCKET_IFNAME", gloo);
    if (nccl.empty() || gloo.empty() || of_nccl.excludes || of_gloo.excludes) continue;
    const bool agree =
        std::any_of(of_gloo.names.begin(), of_gloo.names.end(), [&](const auto& name) {
          return std::any_of(of_nccl.names.begin(), of_nccl.names.end(),
                             [&](const auto& prefix) { return name.starts_with(prefix); });
        });
    if (agree) continue;
    complain({process,
              "GLOO_SOCKET_IFNAME",
              fmt::format("{} uses {} for gloo and {} for NCCL", process->name, gloo, nccl),
              {}});
    return;
  }
}

// The first 24 bits of the first IPv4 address that the choice stands for; 0 where there is none.
uint32_t subnet_of(const HostFacts& facts, const Choice& choice) {
  for (const NetworkInterface* net : chosen(facts, choice)) {
    for (const std::string& address : net->addresses) {
      in_addr parsed{};
      if (::inet_pton(AF_INET, address.c_str(), &parsed) == 1) return ntohl(parsed.s_addr) >> 8;
    }
  }
  return 0;
}

void interface_subnets_differ(const JobSettings& job, const Complain& complain) {
  std::map<std::string, std::map<uint32_t, std::string>> hosts;  // by variable and subnet
  each_choice(job, [&](const Setting& process, const char* variable, const Choice& choice) {
    const HostFacts* facts = job.facts(process.host);
    const uint32_t subnet = facts == nullptr ? 0 : subnet_of(*facts, choice);
    if (subnet != 0) hosts[variable].try_emplace(subnet, process.host);
  });
  for (const auto& [variable, subnets] : hosts) {
    if (subnets.size() < 2) continue;
    std::vector<std::string> told;
    for (const auto& [subnet, host] : subnets) {
      told.push_back(
          fmt::format("{} in {}.{}.{}.*", host, subnet >> 16, (subnet >> 8) & 255, subnet & 255));
    }
    complain({nullptr,
              variable,
              fmt::format("{} chooses addresses of different networks: {}", variable,
                          fmt::join(told, ", ")),
              {}});
  }
}

// Of interfaces of the same name; the loopback's own size means nothing.
void mtu_differs(const JobSettings& job, const Complain& complain) {
  std::map<std::string, std::map<int32_t, std::string>> by_name;
  for (const HostFacts& facts : job.hosts) {
    for (const NetworkInterface& net : facts.interfaces) {
      const bool is_local = net.name == "lo" || net.name.starts_with("docker") ||
                            net.name.starts_with("veth") || net.name.starts_with("br-");
      if (net.mtu > 0 && !is_local) by_name[net.name].try_emplace(net.mtu, facts.host);
    }
  }
  for (const auto& [name, sizes] : by_name) {
    if (sizes.size() < 2) continue;
    std::vector<std::string> told;
    for (const auto& [mtu, host] : sizes) told.push_back(fmt::format("{} on {}", mtu, host));
    complain(
        {nullptr,
         "",
         fmt::format("the MTU of {} differs between the hosts: {}", name, fmt::join(told, ", ")),
         {}});
  }
}

}  // namespace

std::vector<LintRule> network_rules() {
  constexpr auto kSure = LintGrade::kSure;
  constexpr auto kAdvice = LintGrade::kAdvice;
  constexpr const char* kConfig = "cluster_config";
  return {
      {"interface_absent", kConfig, Severity::kError, kSure,
       "*_SOCKET_IFNAME names an interface of the host",
       "name an interface that `ip link` lists, or leave the variable unset", interface_absent},
      {"interface_leaves_loopback", kConfig, Severity::kWarning, kAdvice,
       "an excluding *_SOCKET_IFNAME excludes lo too", "write ^docker0,lo",
       interface_leaves_loopback},
      {"interface_loopback_between_hosts", kConfig, Severity::kError, kSure,
       "*_SOCKET_IFNAME is not lo when there are several hosts",
       "name the interface that leads to the other hosts", interface_loopback_between_hosts},
      {"interfaces_disagree", kConfig, Severity::kWarning, kAdvice,
       "gloo and NCCL use the same interface",
       "name the same interface in GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME", interfaces_disagree},
      {"interface_subnets_differ", kConfig, Severity::kWarning, kAdvice,
       "the chosen interfaces are in one network",
       "name on each host the interface that is in the common network", interface_subnets_differ},
      {"mtu_differs", kConfig, Severity::kWarning, kAdvice, "all hosts have one MTU",
       "set the same MTU on all hosts and switches: large messages get lost or split", mtu_differs},
  };
}

}  // namespace paramedic::cluster
