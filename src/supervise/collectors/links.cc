// The TCP connections of the job's processes, as the kernel knows them (sock_diag(7), `ss -ti`):
// round trip, rate, what was sent, what had to be sent again. One event `links` of each process
// every few seconds (store/rows.h). The kernel is asked, never the job; of processes in another
// network namespace only with the right to enter it.

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <map>
#include <set>
#include <string_view>
#include <thread>

#include "base/json.h"
#include "supervise/collectors/collector.h"
#include "supervise/fd.h"
#include "supervise/process.h"

namespace paramedic::supervise {
namespace {

constexpr int64_t kTellEveryNs = 2'000'000'000;
constexpr size_t kNamespacesMax = 64;
constexpr size_t kLinksMax = 64;  // told of a process: those that have carried most
constexpr size_t kSocketsMax = 32'768;
constexpr int kReadsMax = 4096;  // of one answer of the kernel
constexpr int kDescriptorsMax = 65'536;
// A connection that has carried less is none over which ranks exchange tensors, nor one of which
// a round trip is known.
constexpr uint64_t kBytesMin = 4096;
constexpr uint32_t kUnknownRtt = ~uint32_t{0};
constexpr uint8_t kEstablished = 1;  // TCP_ESTABLISHED

struct Link {
  std::string here;
  std::string there;
  uint32_t queued_bytes = 0;  // written and not acknowledged yet
  tcp_info info{};
};
using LinksByInode = std::map<uint64_t, Link>;

std::string address_of(int family, const uint32_t* words, uint16_t port_be) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(family, words, text.data(), text.size());
  std::string_view address = text.data();
  // What listens on both versions names the fourth in the words of the sixth.
  if (address.starts_with("::ffff:")) address.remove_prefix(7);
  return fmt::format("{}:{}", address, ntohs(port_be));
}

void take_message(const nlmsghdr* message, LinksByInode& links) {
  if (message->nlmsg_len < NLMSG_LENGTH(sizeof(inet_diag_msg))) return;
  const auto* told = static_cast<const inet_diag_msg*>(NLMSG_DATA(message));
  auto left = static_cast<int>(message->nlmsg_len - NLMSG_LENGTH(sizeof *told));
  const auto* attribute = reinterpret_cast<const rtattr*>(told + 1);
  for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
    if (attribute->rta_type != INET_DIAG_INFO) continue;
    Link link;
    // Kernels of other ages tell more fields or fewer.
    const size_t bytes = std::min<size_t>(RTA_PAYLOAD(attribute), sizeof link.info);
    std::memcpy(&link.info, RTA_DATA(attribute), bytes);
    if (link.info.tcpi_bytes_acked + link.info.tcpi_bytes_received < kBytesMin) return;
    link.queued_bytes = told->idiag_wqueue;
    link.here = address_of(told->idiag_family, told->id.idiag_src, told->id.idiag_sport);
    link.there = address_of(told->idiag_family, told->id.idiag_dst, told->id.idiag_dport);
    links.emplace(told->idiag_inode, std::move(link));
    return;
  }
}

// Adds the established connections of one version of the protocol.
void ask(int netlink, uint8_t family, LinksByInode& links) {
  struct {
    nlmsghdr header;
    inet_diag_req_v2 request;
  } question{};
  question.header.nlmsg_len = sizeof question;
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  question.request.sdiag_family = family;
  question.request.sdiag_protocol = IPPROTO_TCP;
  question.request.idiag_ext = 1U << (INET_DIAG_INFO - 1U);
  question.request.idiag_states = 1U << kEstablished;
  if (::send(netlink, &question, sizeof question, 0) < 0) return;
  alignas(nlmsghdr) std::array<char, 32'768> buffer{};
  for (int reads = 0; reads < kReadsMax && links.size() < kSocketsMax; ++reads) {
    const ssize_t got = ::recv(netlink, buffer.data(), buffer.size(), 0);
    if (got <= 0) return;
    auto left = static_cast<uint32_t>(got);
    const auto* message = reinterpret_cast<const nlmsghdr*>(buffer.data());
    for (; NLMSG_OK(message, left); message = NLMSG_NEXT(message, left)) {
      if (message->nlmsg_type == NLMSG_DONE || message->nlmsg_type == NLMSG_ERROR) return;
      take_message(message, links);
    }
  }
}

Fd netlink_socket() {
  Fd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  // The kernel answers at once; an answer that does not come is no reason to wait.
  const timeval limit{0, 200'000};
  if (fd.valid()) ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  return fd;
}

// A socket belongs to the namespace it was made in: a thread goes there, makes it, and ends.
Fd netlink_socket_in(const std::string& path) {
  Fd made;
  std::thread([&made, &path] {
    const Fd there(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (there.valid() && ::setns(there.get(), CLONE_NEWNET) == 0) made = netlink_socket();
  }).join();
  return made;
}

// Calls `take` with the inode of every socket that the process has open.
template <typename Take>
void each_socket(const std::string& folder, const Take& take) {
  DIR* const descriptors = ::opendir((folder + "/fd").c_str());
  if (descriptors == nullptr) return;
  for (int i = 0; i < kDescriptorsMax; ++i) {
    const dirent* const entry = ::readdir(descriptors);
    if (entry == nullptr) break;
    char target[64];
    const ssize_t bytes = ::readlinkat(::dirfd(descriptors), entry->d_name, target, sizeof target);
    if (bytes <= 0) continue;
    const std::string_view text(target, static_cast<size_t>(bytes));
    constexpr std::string_view kSocket = "socket:[";
    uint64_t inode = 0;
    if (!text.starts_with(kSocket)) continue;
    const auto [end, error] =
        std::from_chars(text.data() + kSocket.size(), text.data() + text.size(), inode);
    if (error == std::errc{}) take(inode);
  }
  ::closedir(descriptors);
}

Json json_of(const Link& link) {
  const tcp_info& info = link.info;
  Json json{{"here", link.here},
            {"there", link.there},
            {"rtt_us", info.tcpi_rtt},
            {"sent_bytes", info.tcpi_bytes_acked},
            {"received_bytes", info.tcpi_bytes_received},
            {"segments", info.tcpi_data_segs_out},
            {"sent_again", info.tcpi_total_retrans},
            {"busy_us", info.tcpi_busy_time},
            {"peer_full_us", info.tcpi_rwnd_limited},
            {"queued_bytes", link.queued_bytes}};
  const bool is_known = info.tcpi_min_rtt != 0 && info.tcpi_min_rtt != kUnknownRtt;
  json["min_rtt_us"] = is_known ? Json(info.tcpi_min_rtt) : Json(nullptr);
  return json;
}

class LinksCollector : public Collector {
 public:
  explicit LinksCollector(const CollectorRoots& roots) : proc_(roots.proc) {}

  void sample(int64_t time_ns, pid_t root_pid, store::RowSink& sink) override {
    if (time_ns < next_ns_) return;
    next_ns_ = time_ns + kTellEveryNs;
    std::map<uint64_t, std::vector<pid_t>> by_namespace;
    for (const ProcessStat& process : job_processes(proc_, root_pid)) {
      struct stat space{};
      const std::string path = fmt::format("{}/{}/ns/net", proc_, process.pid);
      if (::stat(path.c_str(), &space) == 0) by_namespace[space.st_ino].push_back(process.pid);
    }
    for (const auto& [space, pids] : by_namespace) {
      const int netlink = socket_for(space, pids[0]);
      if (netlink < 0) continue;
      LinksByInode links;
      ask(netlink, AF_INET, links);
      ask(netlink, AF_INET6, links);
      if (links.empty()) continue;
      for (const pid_t pid : pids) tell(time_ns, pid, links, sink);
    }
  }

 private:
  int socket_for(uint64_t space, pid_t pid) {
    const auto known = sockets_.find(space);
    if (known != sockets_.end()) return known->second.get();
    if (sockets_.size() >= kNamespacesMax) sockets_.clear();
    struct stat own{};
    const bool is_own = ::stat("/proc/self/ns/net", &own) == 0 && own.st_ino == space;
    Fd made =
        is_own ? netlink_socket() : netlink_socket_in(fmt::format("{}/{}/ns/net", proc_, pid));
    return sockets_.emplace(space, std::move(made)).first->second.get();
  }

  void tell(int64_t time_ns, pid_t pid, const LinksByInode& links, store::RowSink& sink) const {
    std::vector<const Link*> own;
    std::set<uint64_t> seen;
    each_socket(fmt::format("{}/{}", proc_, pid), [&](uint64_t inode) {
      const auto link = links.find(inode);
      if (link != links.end() && seen.insert(inode).second) own.push_back(&link->second);
    });
    if (own.empty()) return;
    std::sort(own.begin(), own.end(), [](const Link* one, const Link* other) {
      return one->info.tcpi_bytes_acked + one->info.tcpi_bytes_received >
             other->info.tcpi_bytes_acked + other->info.tcpi_bytes_received;
    });
    own.resize(std::min(own.size(), kLinksMax));
    Json json{{"links", Json::array()}};
    for (const Link* link : own) json["links"].push_back(json_of(*link));
    store::EventRow row;
    row.origin.pid = pid;
    row.origin.time_ns = time_ns;
    row.kind = "links";
    row.json = to_text(json);
    sink.on_event(row);
  }

  const std::string proc_;
  std::map<uint64_t, Fd> sockets_;  // by the inode of the namespace
  int64_t next_ns_ = 0;
};

}  // namespace

std::unique_ptr<Collector> make_links_collector(const CollectorRoots& roots) {
  return std::make_unique<LinksCollector>(roots);
}

}  // namespace paramedic::supervise
