// node_swarm PORT NODES RANKS SECONDS FOLDER FIRST END: the simulated nodes FIRST to END - 1 of
// NODES of one job, each with its own run folder, ranks and courier, that send to the collector on
// 127.0.0.1:PORT once a second. They are simulated: one process writes what the agents of so many
// machines would. Every rank makes five calls a second with the ranks of the same place on all
// nodes. Prints one line of JSON.

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "nodes/courier.h"
#include "store/run.h"

namespace {

using namespace paramedic;

constexpr int kThreads = 4;
constexpr int kCallsASecond = 5;

struct Job {
  int port = 0;
  int nodes = 0;
  int ranks_a_node = 0;
  int seconds = 0;
  std::string folder;
  int first = 0;
  int end = 0;
};

class Node {
 public:
  Node(const Job& job, int number) : job_(job), first_(number * job.ranks_a_node) {
    info_.id = fmt::format("swarm-{}", number);
    info_.dir = fmt::format("{}/node-{}", job.folder, number);
    info_.host = fmt::format("host-{}", number);
    info_.world_size = job.nodes * job.ranks_a_node;
    writer_ = store::RunWriter::create(posix_file_system(), info_, {}, real_clock()).value();
    groups_.resize(static_cast<size_t>(job.ranks_a_node));
    for (int32_t i = 0; i < job.ranks_a_node; ++i) add_rank(first_ + i);
    nodes::TransportOptions to;
    to.address = nodes::parse_address(fmt::format("grpc://127.0.0.1:{}", job.port)).value();
    to.token = std::getenv(nodes::kTokenVariable);
    courier_ = std::make_unique<nodes::Courier>(
        nodes::CourierOptions{info_.dir, "swarm", info_.id}, nodes::make_transport(to).value(),
        nodes::CourierCallbacks{
            .finding =
                [this](const nodes::Receipt::Finding& found) {
                  // The first node tells for all.
                  if (first_ == 0) std::fprintf(stderr, "%s\n", to_text(found.json).c_str());
                },
            .note = [](const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); }});
  }

  // One second of every rank, and what it takes to bring it to the collector.
  void second() {
    const int64_t now_ns = real_clock().wall_ns();
    for (auto& process : look_.moment.processes) {
      for (int call = 0; call < kCallsASecond; ++call) tell_call(process.rank, now_ns, call);
      process.tree_cpu_ms += 900;
      process.last_step += kCallsASecond;
    }
    calls_ += kCallsASecond;
    PARAMEDIC_CHECK(writer_->flush().ok());
    look_.moment.time_ns = look_.stored_ns = real_clock().wall_ns();
    PARAMEDIC_CHECK(nodes::write_look(info_.dir, to_text(look_.to_json())).ok());
    for (int step = 0; step < 8 && courier_->step() == 0; ++step) ++parcels;
    ++parcels;
  }

  int64_t parcels = 0;

 private:
  void add_rank(int32_t rank) {
    cluster::RankProcess process;
    process.rank = rank;
    process.pid = 1000 + rank;
    process.ring_id = static_cast<uint64_t>(rank) + 1;
    process.world_size = info_.world_size;
    process.alive = true;
    process.state = 'R';
    look_.moment.processes.push_back(process);
    const int32_t place = rank - first_;
    store::GroupInfo& group = groups_[static_cast<size_t>(place)];
    group.name = fmt::format("place-{}", place);
    group.backend = "gloo";
    for (int32_t i = 0; i < job_.nodes; ++i) {
      group.ranks.push_back(i * job_.ranks_a_node + place);
    }
    store::EventRow told;
    told.origin = origin(rank, real_clock().wall_ns());
    told.kind = "process_group";
    told.json = to_text({{"name", group.name},
                         {"description", ""},
                         {"backend", "gloo"},
                         {"ranks", group.ranks},
                         {"timeout_s", 1800}});
    writer_->on_event(told);
  }

  store::Origin origin(int32_t rank, int64_t time_ns) {
    return {.rank = rank,
            .pid = 1000 + rank,
            .ring_id = static_cast<uint64_t>(rank) + 1,
            .sequence = ++sequence_,
            .time_ns = time_ns,
            .step = calls_};
  }

  void tell_call(int32_t rank, int64_t now_ns, int call) {
    store::CollectiveRow row;
    row.origin = origin(rank, now_ns - 1'000'000'000 + call * 200'000'000);
    row.group = &groups_[static_cast<size_t>(rank - first_)];
    row.sequence = calls_ + call;
    row.operation = "all_reduce";
    row.sizes = {1 << 20};
    row.bytes = 4 << 20;
    row.where = &site_;
    row.entered_ns = row.origin.time_ns;
    row.left_ns = row.entered_ns + 5'000'000;
    writer_->on_collective(row);
  }

  const Job& job_;
  const int32_t first_;
  store::RunInfo info_;
  std::unique_ptr<store::RunWriter> writer_;
  std::unique_ptr<nodes::Courier> courier_;
  std::vector<store::GroupInfo> groups_;
  store::CallSite site_{"train.py", 50, "main"};
  nodes::Look look_;
  uint64_t sequence_ = 0;
  int64_t calls_ = 0;
};

// Nodes `first`, `first` + kThreads, …: each once a second, as long as there is time.
void run_thread(const Job& job, int first, std::atomic<int64_t>& parcels,
                std::atomic<int64_t>& late_ms) {
  std::vector<std::unique_ptr<Node>> nodes;
  for (int i = job.first + first; i < job.end; i += kThreads) {
    nodes.push_back(std::make_unique<Node>(job, i));
  }
  auto due = std::chrono::steady_clock::now();
  for (int second = 0; second < job.seconds; ++second) {
    for (const auto& node : nodes) node->second();
    due += std::chrono::seconds(1);
    const auto late = std::chrono::steady_clock::now() - due;
    late_ms = std::max<int64_t>(
        late_ms, std::chrono::duration_cast<std::chrono::milliseconds>(late).count());
    std::this_thread::sleep_until(due);
  }
  for (const auto& node : nodes) parcels += node->parcels;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8) return 2;
  Job job{std::atoi(argv[1]), std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4]), argv[5],
          std::atoi(argv[6]), std::atoi(argv[7])};
  std::atomic<int64_t> parcels = 0;
  std::atomic<int64_t> late_ms = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] { run_thread(job, i, parcels, late_ms); });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("%s\n", to_text({{"nodes", job.nodes},
                               {"ranks", job.nodes * job.ranks_a_node},
                               {"seconds", job.seconds},
                               {"parcels", parcels.load()},
                               {"latest_ms", late_ms.load()}})
                          .c_str());
}
