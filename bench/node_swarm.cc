// node_swarm PORT NODES RANKS SECONDS [WITHOUT]: NODES simulated nodes with RANKS ranks each, that
// send to the collector on 127.0.0.1:PORT once a second. One process writes what the agents of so
// many machines would: the bytes of segments come from the same writer, into memory instead of
// files, and go out as parcels, each node over a connection of its own. Every rank makes five calls
// a second with the ranks of the same place on all nodes, and the first one of each node another
// with all ranks. From the middle of the run on the rank WITHOUT does not come any more, and tells
// that it sleeps. Prints one line of JSON.

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "nodes/look.h"
#include "nodes/transport.h"
#include "store/run.h"

namespace {

using namespace paramedic;

constexpr int kThreads = 4;
constexpr int kCallsASecond = 5;
constexpr int64_t kS = 1'000'000'000;

struct Job {
  int port = 0;
  int nodes = 0;
  int ranks_a_node = 0;
  int seconds = 0;
  int32_t without = -1;
  std::vector<store::GroupInfo> groups = {};  // of each place in a node, then that of all ranks
  [[nodiscard]] int ranks() const { return nodes * ranks_a_node; }
};

void add_group(Job& job, std::string name, std::vector<int32_t> ranks) {
  store::GroupInfo& group = job.groups.emplace_back();
  group.name = std::move(name);
  group.backend = "gloo";
  group.ranks = store::Members(std::move(ranks));
}

void add_groups(Job& job) {
  for (int32_t place = 0; place < job.ranks_a_node; ++place) {
    std::vector<int32_t> ranks;
    for (int32_t i = 0; i < job.nodes; ++i) ranks.push_back(i * job.ranks_a_node + place);
    add_group(job, fmt::format("place-{}", place), std::move(ranks));
  }
  std::vector<int32_t> all(static_cast<size_t>(job.ranks()));
  std::iota(all.begin(), all.end(), 0);
  add_group(job, "world", std::move(all));
}

// What a run's writer appends, as the pieces of the next parcel.
class Pieces : public FileSystem {
 public:
  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
    return std::unique_ptr<WritableFile>(std::make_unique<File>(*this, path));
  }
  Result<std::unique_ptr<WritableFile>> reopen(const std::string& path) override {
    return not_found(path);
  }
  Result<std::string> read(const std::string& path) override { return not_found(path); }
  Status write_atomically(const std::string&, Bytes) override { return {}; }
  Status truncate(const std::string& path, uint64_t) override { return not_found(path); }
  Status remove(const std::string& path) override { return not_found(path); }
  Status make_folders(const std::string&) override { return {}; }
  Result<std::vector<std::string>> list(const std::string& path) override {
    return not_found(path);
  }
  Result<uint64_t> size(const std::string& path) override { return not_found(path); }
  bool exists(const std::string&) override { return false; }

  std::vector<nodes::Piece> pieces;

 private:
  class File : public WritableFile {
   public:
    // "run/TABLE/NAME"
    File(Pieces& all, const std::string& path) : all_(all), file_(path.substr(4)) {}
    Status append(Bytes bytes) override {
      if (!nodes::is_segment_file(file_)) return {};  // run.json
      const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      if (!all_.pieces.empty() && all_.pieces.back().file == file_) {
        all_.pieces.back().bytes += text;
      } else {
        all_.pieces.push_back({file_, at_, text});
      }
      at_ += bytes.size();
      return {};
    }
    Status sync() override { return {}; }
    Status close() override { return {}; }

   private:
    Pieces& all_;
    const std::string file_;
    uint64_t at_ = 0;
  };
};

class Node {
 public:
  Node(const Job& job, int number) : job_(job), first_(number * job.ranks_a_node) {
    info_.id = fmt::format("node-{}", number);
    info_.dir = "run";
    info_.host = fmt::format("host-{}", number);
    info_.world_size = job.ranks();
    writer_ = store::RunWriter::create(files_, info_, {}, real_clock()).value();
    for (int32_t place = 0; place < job.ranks_a_node; ++place) add_rank(place);
    nodes::TransportOptions to;
    to.address = nodes::parse_address(fmt::format("grpc://127.0.0.1:{}", job.port)).value();
    to.token = std::getenv(nodes::kTokenVariable);
    transport_ = nodes::make_transport(to).value();
  }

  // One second of every rank, and what it takes to bring it to the collector.
  void second(int number) {
    const int64_t now_ns = real_clock().wall_ns();
    const bool is_hung = job_.without >= 0 && number >= job_.seconds / 2;
    if (is_hung && stopped_ns_ == 0) stopped_ns_ = now_ns;
    for (auto& process : look_.moment.processes) {
      for (int call = 0; call < kCallsASecond && !is_hung; ++call) {
        tell_call(process.rank, job_.groups[static_cast<size_t>(process.rank - first_)],
                  {number * kCallsASecond + call, now_ns - kS + call * kS / kCallsASecond});
      }
      if (is_hung && number == job_.seconds / 2 && process.rank != job_.without) {
        tell_call(process.rank, job_.groups.back(), {number, now_ns}, true);
      } else if (!is_hung) {
        tell_call(process.rank, job_.groups.back(), {number, now_ns - kS / 100});
      }
      if (is_hung) tell_stall(process.rank, now_ns);
      process.state = is_hung ? 'S' : 'R';
      process.wait = is_hung ? "do_epoll_wait" : "";
      process.tree_cpu_ms += is_hung ? 0 : 900;
      process.last_step = number;
    }
    PARAMEDIC_CHECK(writer_->flush().ok());
    look_.moment.time_ns = look_.stored_ns = real_clock().wall_ns();
    send();
  }

  [[nodiscard]] double named_after_s() const {
    return named_ns_ == 0 ? -1 : static_cast<double>(named_ns_ - stopped_ns_) / 1e9;
  }
  int64_t parcels = 0;
  int64_t failures = 0;

 private:
  void send() {
    nodes::Parcel parcel;
    parcel.job = "swarm";
    parcel.node = info_.id;
    parcel.collector = collector_;
    parcel.findings_seen = findings_seen_;
    if (parcels == 0) parcel.info = to_text(info_.to_json());
    parcel.look = to_text(look_.to_json());
    parcel.pieces = std::move(files_.pieces);
    auto receipt = transport_->send(parcel);
    // A collector that is busy is asked again with the next second.
    if (!receipt.ok()) {
      if (++failures == 1) std::fprintf(stderr, "%s\n", receipt.status().message().c_str());
      files_.pieces = std::move(parcel.pieces);
      return;
    }
    files_.pieces.clear();
    ++parcels;
    collector_ = receipt->collector;
    findings_seen_ = receipt->findings_count;
    for (const auto& found : receipt->findings) {
      if (named_ns_ == 0) named_ns_ = real_clock().wall_ns();
      if (first_ == 0) std::fprintf(stderr, "%s\n", to_text(found.json).c_str());
    }
  }

  void add_rank(int32_t place) {
    cluster::RankProcess process;
    process.rank = first_ + place;
    process.pid = 1000 + process.rank;
    process.ring_id = static_cast<uint64_t>(process.rank) + 1;
    process.world_size = info_.world_size;
    process.alive = true;
    look_.moment.processes.push_back(process);
    tell_group(process.rank, job_.groups[static_cast<size_t>(place)].name,
               fmt::format("{}-{}:{}", place, job_.ranks() - job_.ranks_a_node + place,
                           job_.ranks_a_node));
    tell_group(process.rank, "world", fmt::format("0-{}", job_.ranks() - 1));
  }

  void tell_group(int32_t rank, const std::string& name, const std::string& ranks) {
    store::EventRow told;
    told.origin = origin(rank, real_clock().wall_ns());
    told.kind = "process_group";
    told.json =
        to_text({{"name", name}, {"backend", "gloo"}, {"ranks", ranks}, {"timeout_s", 1800}});
    writer_->on_event(told);
  }

  store::Origin origin(int32_t rank, int64_t time_ns) {
    return {.rank = rank,
            .pid = 1000 + rank,
            .ring_id = static_cast<uint64_t>(rank) + 1,
            .sequence = ++sequence_,
            .time_ns = time_ns};
  }

  struct Moment {
    int64_t number = 0;
    int64_t time_ns = 0;
  };
  void tell_call(int32_t rank, const store::GroupInfo& group, Moment at, bool is_open = false) {
    store::CollectiveRow row;
    row.origin = origin(rank, at.time_ns);
    row.origin.step = at.number;
    row.group = &group;
    row.sequence = at.number;
    row.operation = "all_reduce";
    row.sizes = {1 << 20};
    row.bytes = 4 << 20;
    row.where = &site_;
    row.entered_ns = at.time_ns;
    row.left_ns = is_open ? 0 : at.time_ns + 5'000'000;
    writer_->on_collective(row);
  }

  void tell_stall(int32_t rank, int64_t now_ns) {
    store::EventRow row;
    row.origin = origin(rank, now_ns);
    row.kind = "stalled";
    const int64_t sequence = job_.seconds / 2;
    row.json = to_text({{"since_ns", stopped_ns_},
                        {"stalled_ms", (now_ns - stopped_ns_) / 1'000'000},
                        {"waiting", rank == job_.without ? Json(nullptr)
                                                         : Json{{"group", "world"},
                                                                {"sequence", sequence},
                                                                {"operation", "all_reduce"}}},
                        {"phase", nullptr},
                        {"evaluating", false},
                        {"torch_calls_since", 0},
                        {"stack", {{{"file", "train.py"}, {"line", 77}, {"function", "main"}}}},
                        {"flight", Json::object()}});
    writer_->on_event(row);
  }

  const Job& job_;
  const int32_t first_;
  store::RunInfo info_;
  Pieces files_;
  std::unique_ptr<store::RunWriter> writer_;
  std::unique_ptr<nodes::Transport> transport_;
  store::CallSite site_{"train.py", 50, "main"};
  nodes::Look look_;
  uint64_t sequence_ = 0;
  int64_t stopped_ns_ = 0;
  int64_t named_ns_ = 0;
  std::string collector_;
  uint64_t findings_seen_ = 0;
};

struct Outcome {
  std::atomic<int64_t> parcels = 0;
  std::atomic<int64_t> failures = 0;
  std::atomic<int64_t> late_ms = 0;
  std::atomic<double> named_after_s = -1;
};

// Every kThreads-th node, spread over each second.
void run_thread(const Job& job, int thread, Outcome& outcome) {
  std::vector<std::unique_ptr<Node>> nodes;
  for (int i = thread; i < job.nodes; i += kThreads) {
    nodes.push_back(std::make_unique<Node>(job, i));
  }
  if (nodes.empty()) return;
  const auto apart = std::chrono::nanoseconds(kS / static_cast<int64_t>(nodes.size()));
  auto due = std::chrono::steady_clock::now();
  for (int second = 0; second < job.seconds; ++second) {
    for (const auto& node : nodes) {
      std::this_thread::sleep_until(due);
      const auto late = std::chrono::steady_clock::now() - due;
      outcome.late_ms = std::max<int64_t>(
          outcome.late_ms, std::chrono::duration_cast<std::chrono::milliseconds>(late).count());
      node->second(second);
      due += apart;
    }
  }
  for (const auto& node : nodes) {
    outcome.parcels += node->parcels;
    outcome.failures += node->failures;
    outcome.named_after_s = std::max(outcome.named_after_s.load(), node->named_after_s());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5 && argc != 6) return 2;
  Job job{std::atoi(argv[1]), std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4]),
          argc == 6 ? std::atoi(argv[5]) : -1};
  add_groups(job);
  Outcome outcome;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] { run_thread(job, i, outcome); });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("%s\n", to_text({{"parcels", outcome.parcels.load()},
                               {"failures", outcome.failures.load()},
                               {"late_ms", outcome.late_ms.load()},
                               {"named_after_s", outcome.named_after_s.load()}})
                          .c_str());
}
