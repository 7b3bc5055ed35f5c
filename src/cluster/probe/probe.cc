#include "cluster/probe/probe.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/median.h"
#include "cluster/lint/setting.h"
#include "cluster/probe/socket.h"

namespace paramedic::cluster {
namespace {

constexpr const char* kGreeting = "paramedic-probe 1";
constexpr size_t kLineBytesMax = 512;
constexpr size_t kRowBytesMax = 1U << 20;
constexpr uint64_t kTakeBytesMax = 1ULL << 30;
constexpr size_t kConnectionsMax = 256;
constexpr size_t kPeersMax = 4096;
constexpr int kPings = 20;
constexpr int64_t kStepMs = 10'000;  // for one answer
constexpr int64_t kRetryMs = 200;
constexpr int64_t kAcceptMs = 100;
constexpr size_t kChunkBytes = 256U << 10;
constexpr double kOffsetMs = 500;
// A way this much slower than the middle one is told.
constexpr double kSlow = 0.5;
constexpr double kLate = 5;
constexpr double kLateMs = 1;

int64_t now_ns() { return real_clock().monotonic_ns(); }

void pause_ms(int64_t ms) { ::poll(nullptr, 0, static_cast<int>(ms)); }

// Equal in a time that does not depend on where they differ.
bool is_same_token(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference = static_cast<unsigned char>(difference | (a[i] ^ b[i]));
  }
  return difference == 0;
}

// Serves the others until it is destroyed.
class Server {
 public:
  Server(const ProbeOptions& options, Socket socket)
      : options_(options), socket_(std::move(socket)), thread_([this] { serve(); }) {}
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() {
    is_over_ = true;
    thread_.join();
    for (std::thread& conversation : conversations_) conversation.join();
  }

  void publish(std::string row) {
    const std::scoped_lock lock(mutex_);
    row_ = std::move(row);
  }
  // How many have our row, or were turned away: they will ask no more.
  [[nodiscard]] size_t served() const { return served_; }

 private:
  void serve() {
    while (!is_over_) {
      auto client = socket_.accept(deadline_in_ms(kAcceptMs));
      if (!client || conversations_.size() >= kConnectionsMax) continue;
      conversations_.emplace_back([this](Socket socket) { (void)converse(socket); },
                                  std::move(*client));
    }
  }

  Status converse(Socket& client) {
    PARAMEDIC_ASSIGN(const std::string hello,
                     client.receive_line(kLineBytesMax, deadline_in_ms(kStepMs)));
    const size_t space = hello.find_last_of(' ');
    const bool known =
        space != std::string::npos &&
        is_same_token(hello.substr(0, space), fmt::format("{} {}", kGreeting, options_.token));
    if (!known) {
      ++served_;
      return client.send("refused\n", deadline_in_ms(kStepMs));
    }
    PARAMEDIC_TRY(client.send(fmt::format("ok {}\n", options_.self), deadline_in_ms(kStepMs)));
    while (!is_over_) {
      PARAMEDIC_ASSIGN(const std::string request,
                       client.receive_line(kLineBytesMax, deadline_in_ms(kStepMs)));
      PARAMEDIC_ASSIGN(const std::string answer, answer_to(client, request));
      PARAMEDIC_TRY(client.send(answer + "\n", deadline_in_ms(kStepMs)));
    }
    return {};
  }

  Result<std::string> answer_to(Socket& client, const std::string& request) {
    if (request == "ping") return std::to_string(real_clock().wall_ns());
    if (request == "row") {
      const std::scoped_lock lock(mutex_);
      if (!row_.empty()) ++served_;
      return row_.empty() ? "none" : row_;
    }
    constexpr std::string_view kTake = "take ";
    if (!request.starts_with(kTake)) return invalid_argument("unknown request");
    const auto bytes = static_cast<uint64_t>(
        std::max<int64_t>(whole_number(request.substr(kTake.size())).value_or(0), 0));
    if (bytes > kTakeBytesMax) return invalid_argument("too many bytes");
    PARAMEDIC_TRY(client.receive_and_drop(bytes, deadline_in_ms(kStepMs)));
    return std::string("taken");
  }

  const ProbeOptions& options_;
  Socket socket_;
  std::mutex mutex_;
  std::string row_;
  std::atomic<size_t> served_ = 0;
  std::atomic<bool> is_over_ = false;
  std::vector<std::thread> conversations_;  // of serve()'s thread until that has ended
  std::thread thread_;                      // last: it uses the others
};

Result<std::string> ask(Socket& socket, const std::string& request, size_t bytes_max) {
  PARAMEDIC_TRY(socket.send(request + "\n", deadline_in_ms(kStepMs)));
  return socket.receive_line(bytes_max, deadline_in_ms(kStepMs));
}

Path failed(const Status& status) {
  Path path;
  path.detail = status.message();
  if (status.code() == StatusCode::kNotFound) {
    path.status = "unresolved";
  } else if (path.detail.find("refused") != std::string::npos) {
    path.status = "refused";
  }
  return path;
}

// A conversation, opened; tries again while nobody listens there yet.
Result<Socket> open(const ProbeOptions& options, size_t to, Deadline deadline, Path& path) {
  const Peer& peer = options.peers[to];
  for (;;) {
    const Deadline step = std::min(deadline, deadline_in_ms(kStepMs));
    auto socket = Socket::connect(peer.host, peer.port, step);
    if (socket.ok()) {
      const std::string hello = fmt::format("{} {} {}", kGreeting, options.token, options.self);
      const auto answer = ask(*socket, hello, kLineBytesMax);
      if (answer.ok() && *answer == fmt::format("ok {}", to)) return socket;
      path.status = answer.ok() && *answer == "refused" ? "wrong_token" : "stranger";
      path.detail = answer.ok() ? *answer : answer.status().message();
      return io_error(path.detail);
    }
    path = failed(socket.status());
    if (now_ns() + kRetryMs * 1'000'000 >= deadline) return socket.status();
    // Nothing on this host tells when the other one is there.
    pause_ms(kRetryMs);
  }
}

Status measure(Socket& socket, uint64_t bytes, Path& path) {
  int64_t shortest_ns = 0;
  for (int i = 0; i < kPings; ++i) {
    const int64_t start_ns = now_ns();
    const int64_t wall_ns = real_clock().wall_ns();
    PARAMEDIC_ASSIGN(const std::string answer, ask(socket, "ping", kLineBytesMax));
    const int64_t trip_ns = now_ns() - start_ns;
    if (shortest_ns != 0 && trip_ns >= shortest_ns) continue;
    shortest_ns = trip_ns;
    const int64_t theirs_ns = whole_number(answer).value_or(0);
    path.clock_offset_ms =
        (static_cast<double>(theirs_ns - wall_ns) - static_cast<double>(trip_ns) / 2) / 1e6;
  }
  path.latency_ms = static_cast<double>(shortest_ns) / 1e6;
  path.mtu = socket.mtu();
  const std::string chunk(kChunkBytes, 'x');
  const int64_t start_ns = now_ns();
  PARAMEDIC_TRY(socket.send(fmt::format("take {}\n", bytes), deadline_in_ms(kStepMs)));
  for (uint64_t left = bytes; left > 0;) {
    const auto part = std::min<uint64_t>(left, chunk.size());
    PARAMEDIC_TRY(socket.send(std::string_view(chunk).substr(0, part), deadline_in_ms(kStepMs)));
    left -= part;
  }
  PARAMEDIC_ASSIGN(const std::string taken,
                   socket.receive_line(kLineBytesMax, deadline_in_ms(kStepMs)));
  if (taken != "taken") return io_error("the peer answered " + taken);
  path.megabytes_per_s =
      static_cast<double>(bytes) * 1e3 / static_cast<double>(now_ns() - start_ns);
  path.status = "ok";
  path.detail.clear();
  return {};
}

Path measure_path(const ProbeOptions& options, size_t to, Deadline deadline) {
  Path path;
  auto socket = open(options, to, deadline, path);
  if (!socket.ok()) return path;
  if (const Status status = measure(*socket, options.bytes, path); !status.ok()) {
    path = failed(status);
  }
  return path;
}

std::optional<std::vector<Path>> fetch_row(const ProbeOptions& options, size_t from,
                                           Deadline deadline) {
  Path ignored;
  auto socket = open(options, from, deadline, ignored);
  while (socket.ok() && now_ns() < deadline) {
    const auto text = ask(*socket, "row", kRowBytesMax);
    if (!text.ok()) return std::nullopt;
    if (*text == "none") {
      pause_ms(kRetryMs);
      continue;
    }
    const auto json = parse_json(*text, "a row of the probe");
    if (!json.ok() || !json->is_array() || json->size() != options.peers.size()) break;
    std::vector<Path> row;
    for (const Json& path : *json) row.push_back(Path::from_json(path));
    return row;
  }
  return std::nullopt;
}

}  // namespace

Json Path::to_json() const {
  return {{"status", status},
          {"detail", detail},
          {"latency_ms", latency_ms},
          {"megabytes_per_s", megabytes_per_s},
          {"clock_offset_ms", clock_offset_ms},
          {"mtu", mtu}};
}

Path Path::from_json(const Json& json) {
  Path path;
  path.status = string_or(json, "status", "timeout");
  path.detail = string_or(json, "detail", "");
  path.latency_ms = number_or(json, "latency_ms", 0);
  path.megabytes_per_s = number_or(json, "megabytes_per_s", 0);
  path.clock_offset_ms = number_or(json, "clock_offset_ms", 0);
  path.mtu = static_cast<int32_t>(integer_or(json, "mtu", 0));
  return path;
}

Result<std::vector<Peer>> parse_peers(const std::vector<std::string>& words, int32_t port) {
  std::vector<Peer> peers;
  for (const std::string& word : words) {
    const size_t colon = word.find_last_of(':');
    Peer peer{word.substr(0, colon), port};
    if (colon != std::string::npos) {
      const auto given = whole_number(word.substr(colon + 1));
      if (!given || *given < 1 || *given > 65535) {
        return invalid_argument(fmt::format("--hosts: '{}' has no port from 1 to 65535", word));
      }
      peer.port = static_cast<int32_t>(*given);
    }
    if (peer.host.empty()) return invalid_argument("--hosts: a host without a name");
    peers.push_back(std::move(peer));
  }
  if (peers.size() < 2 || peers.size() > kPeersMax) {
    return invalid_argument(fmt::format("--hosts names {} hosts", peers.size()),
                            "the same list of at least two hosts on each of them");
  }
  return peers;
}

Result<ProbeResult> run_probe(const ProbeOptions& options,
                              const std::function<void(const std::string&)>& note) {
  PARAMEDIC_CHECK(options.self < options.peers.size());
  PARAMEDIC_ASSIGN(Socket socket, Socket::listen(options.peers[options.self].port));
  Server server(options, std::move(socket));
  const Deadline deadline = deadline_in_ms(options.wait_ms);
  std::vector<Path> row(options.peers.size());
  row[options.self].status = "ok";
  // Not all at the same host first.
  for (size_t i = 1; i < options.peers.size(); ++i) {
    const size_t to = (options.self + i) % options.peers.size();
    row[to] = measure_path(options, to, deadline);
    note(fmt::format("{}: {}", options.peers[to].host, row[to].status));
  }
  Json published = Json::array();
  for (const Path& path : row) published.push_back(path.to_json());
  server.publish(to_text(published));
  ProbeResult result;
  result.rows.resize(options.peers.size());
  result.rows[options.self] = row;
  for (size_t from = 0; from < options.peers.size(); ++from) {
    if (from == options.self || !row[from].ok()) continue;
    result.rows[from] = fetch_row(options, from, deadline);
  }
  while (server.served() + 1 < options.peers.size() && now_ns() < deadline) {
    pause_ms(kRetryMs);
  }
  return result;
}

std::vector<std::string> judge_probe(const std::vector<Peer>& peers, const ProbeResult& result) {
  std::vector<std::string> problems;
  std::vector<double> speeds;
  std::vector<double> latencies;
  const auto each = [&](const std::function<void(size_t, size_t, const Path&)>& take) {
    for (size_t from = 0; from < result.rows.size(); ++from) {
      for (size_t to = 0; result.rows[from] && to < peers.size(); ++to) {
        if (from != to) take(from, to, (*result.rows[from])[to]);
      }
    }
  };
  each([&](size_t, size_t, const Path& path) {
    if (!path.ok()) return;
    speeds.push_back(path.megabytes_per_s);
    latencies.push_back(path.latency_ms);
  });
  const double speed = median_of(speeds);
  const double latency = median_of(latencies);
  int32_t mtu = 0;
  each([&](size_t from, size_t to, const Path& path) {
    const std::string way = fmt::format("{} → {}", peers[from].host, peers[to].host);
    if (!path.ok()) {
      problems.push_back(fmt::format("{}:{}: {}{}", way, peers[to].port, path.status,
                                     path.detail.empty() ? "" : " (" + path.detail + ")"));
      return;
    }
    if (path.megabytes_per_s < kSlow * speed) {
      problems.push_back(
          fmt::format("{}: {:.1f} MB/s, the others {:.1f}", way, path.megabytes_per_s, speed));
    }
    if (path.latency_ms > kLate * latency && path.latency_ms > kLateMs) {
      problems.push_back(fmt::format("{}: {:.2f} ms there and back, the others {:.2f}", way,
                                     path.latency_ms, latency));
    }
    if (std::abs(path.clock_offset_ms) > kOffsetMs) {
      problems.push_back(
          fmt::format("{}: the clocks differ by {:.1f} s", way, path.clock_offset_ms / 1e3));
    }
    if (mtu != 0 && path.mtu != 0 && path.mtu != mtu) {
      problems.push_back(fmt::format("{}: the MTU is {}, elsewhere {}", way, path.mtu, mtu));
    }
    if (path.mtu != 0 && mtu == 0) mtu = path.mtu;
  });
  for (size_t from = 0; from < result.rows.size(); ++from) {
    if (!result.rows[from]) {
      problems.push_back(fmt::format("{} has told no results", peers[from].host));
    }
  }
  return problems;
}

}  // namespace paramedic::cluster
