#include "supervise/host_facts.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string_view>

#include "base/file.h"
#include "supervise/fd.h"
#include "supervise/process.h"

namespace paramedic::supervise {
namespace {

constexpr size_t kFilesMax = 4096;  // of one process
constexpr size_t kAddressesMax = 64;

std::string numeric(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    ::inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
  } else if (address->sa_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
    ::inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text);
  }
  return text;
}

int32_t mtu_of(const std::string& name) {
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  if (!socket.valid() || ::ioctl(socket.get(), SIOCGIFMTU, &request) != 0) return 0;
  return request.ifr_mtu;
}

std::vector<cluster::NetworkInterface> read_interfaces() {
  std::vector<cluster::NetworkInterface> interfaces;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return interfaces;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    const std::string name = entry->ifa_name;
    auto known = std::find_if(interfaces.begin(), interfaces.end(),
                              [&](const auto& net) { return net.name == name; });
    if (known == interfaces.end()) {
      known = interfaces.insert(known, {name, {}, mtu_of(name)});
    }
    const std::string address = entry->ifa_addr == nullptr ? "" : numeric(entry->ifa_addr);
    if (!address.empty()) known->addresses.push_back(address);
  }
  ::freeifaddrs(first);
  return interfaces;
}

// The process may be kept to some of the cores.
int32_t usable_cores() {
  cpu_set_t cores;
  if (::sched_getaffinity(0, sizeof cores, &cores) == 0) return CPU_COUNT(&cores);
  return static_cast<int32_t>(::sysconf(_SC_NPROCESSORS_ONLN));
}

int32_t count_devices() {
  const auto names = posix_file_system().list("/proc/driver/nvidia/gpus");
  return names.ok() ? static_cast<int32_t>(names->size()) : 0;
}

// A line of /proc/net/tcp: "0: 0100007F:733C 00000000:0000 0A … inode".
void read_listener(const std::string& line, std::map<int32_t, uint64_t>& ports) {
  constexpr const char* kListen = "0A";
  std::istringstream fields(line);
  std::string number, local, remote, state, skipped;
  fields >> number >> local >> remote >> state;
  if (state != kListen) return;
  for (int i = 0; i < 5; ++i) fields >> skipped;  // queues, timer, retransmits, uid, timeout
  uint64_t inode = 0;
  fields >> inode;
  const size_t colon = local.find_last_of(':');
  if (fields.fail() || colon == std::string::npos) return;
  int32_t port = 0;
  std::from_chars(local.data() + colon + 1, local.data() + local.size(), port, 16);
  if (port > 0) ports[port] = inode;
}

}  // namespace

cluster::HostFacts read_host_facts(const std::string& host) {
  cluster::HostFacts facts;
  facts.host = host;
  facts.cores = usable_cores();
  facts.devices = count_devices();
  facts.interfaces = read_interfaces();
  facts.has_infiniband = posix_file_system().exists("/sys/class/infiniband");
  struct statvfs shared{};
  if (::statvfs("/dev/shm", &shared) == 0) {
    facts.shared_memory_bytes = static_cast<uint64_t>(shared.f_blocks) * shared.f_frsize;
  }
  return facts;
}

std::map<int32_t, uint64_t> listening_ports(const std::string& proc_root) {
  std::map<int32_t, uint64_t> ports;
  for (const char* name : {"/net/tcp6", "/net/tcp"}) {
    std::istringstream lines(read_small_file(proc_root + name).value_or(""));
    for (std::string line; std::getline(lines, line);) read_listener(line, ports);
  }
  return ports;
}

bool holds_socket(const std::string& proc_root, int32_t pid, uint64_t inode) {
  const std::string folder = fmt::format("{}/{}/fd", proc_root, pid);
  const std::string wanted = fmt::format("socket:[{}]", inode);
  const auto names = posix_file_system().list(folder);
  if (!names.ok()) return false;
  size_t left = kFilesMax;
  for (const std::string& name : names.value()) {
    if (left-- == 0) break;
    char target[64];
    const ssize_t bytes = ::readlink((folder + "/" + name).c_str(), target, sizeof target);
    if (bytes > 0 && std::string_view(target, static_cast<size_t>(bytes)) == wanted) return true;
  }
  return false;
}

std::vector<std::string> command_line(const std::string& proc_root, int32_t pid) {
  std::vector<std::string> words;
  std::istringstream text(
      read_small_file(fmt::format("{}/{}/cmdline", proc_root, pid)).value_or(""));
  for (std::string word; std::getline(text, word, '\0');) words.push_back(word);
  return words;
}

std::map<std::string, double> read_limits(const std::string& proc_root, int32_t pid) {
  std::map<std::string, double> limits;
  const auto text = read_small_file(fmt::format("{}/{}/limits", proc_root, pid));
  if (!text) return limits;
  if (const auto files = number_after(*text, "Max open files")) {
    limits["open_files"] = static_cast<double>(*files);
  }
  if (const auto bytes = number_after(*text, "Max locked memory")) {
    limits["locked_bytes"] = static_cast<double>(*bytes);
  }
  return limits;
}

std::vector<std::string> resolve_name(const std::string& name) {
  std::vector<std::string> addresses;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &first) != 0) return addresses;
  for (const addrinfo* entry = first; entry != nullptr; entry = entry->ai_next) {
    const std::string address = numeric(entry->ai_addr);
    if (addresses.size() < kAddressesMax && !address.empty()) addresses.push_back(address);
  }
  ::freeaddrinfo(first);
  return addresses;
}

}  // namespace paramedic::supervise
