#include "nodes/test_node.h"

#include <fmt/format.h>

#include <numeric>

#include "base/file.h"

namespace paramedic::nodes {

TestNode::TestNode(std::string dir, int32_t first, int32_t count, int32_t world, int64_t skew_ns)
    : first_(first), count_(count), skew_ns_(skew_ns) {
  info_.id = "run-" + std::to_string(first);
  info_.dir = std::move(dir);
  info_.host = "host-" + std::to_string(first);
  info_.command = {"train.py"};
  info_.world_size = world;
  writer_ = store::RunWriter::create(posix_file_system(), info_, {}, real_clock()).value();
  group_.name = "0";
  group_.backend = "gloo";
  std::vector<int32_t> all(static_cast<size_t>(world));
  std::iota(all.begin(), all.end(), 0);
  group_.ranks = store::Members(std::move(all));
  for (int32_t rank = first; rank < first + count; ++rank) {
    cluster::RankProcess process;
    process.rank = rank;
    process.pid = 100 + rank;
    process.ring_id = static_cast<uint64_t>(rank) + 1;
    process.world_size = world;
    process.alive = true;
    process.state = 'S';
    process.wait = "do_epoll_wait";
    look_.moment.processes.push_back(process);
    store::EventRow told;
    told.origin = origin(rank, 1);
    told.kind = "process_group";
    told.json = to_text({{"name", "0"},
                         {"description", "default_pg"},
                         {"backend", "gloo"},
                         {"ranks", fmt::format("0-{}", world - 1)},
                         {"timeout_s", 1800}});
    writer_->on_event(told);
  }
}

store::Origin TestNode::origin(int32_t rank, int64_t time_ns) {
  store::Origin origin;
  origin.rank = rank;
  origin.pid = 100 + rank;
  origin.ring_id = static_cast<uint64_t>(rank) + 1;
  origin.sequence = ++sequences_[rank];
  origin.time_ns = time_ns + skew_ns_;
  return origin;
}

store::CollectiveRow TestNode::call(int32_t rank, int64_t time_ns) {
  store::CollectiveRow row;
  row.origin = origin(rank, time_ns);
  row.group = &group_;
  row.sequence = calls_[rank]++;
  row.operation = "all_reduce";
  row.sizes = {10};
  row.bytes = 40;
  row.where = &site_;
  row.entered_ns = time_ns + skew_ns_;
  return row;
}

void TestNode::all_reduce(int64_t time_ns) {
  for (int32_t rank = first_; rank < first_ + count_; ++rank) {
    store::CollectiveRow row = call(rank, time_ns);
    row.left_ns = row.entered_ns + 1'000'000;
    writer_->on_collective(row);
  }
}

void TestNode::enter_all_reduce(int64_t time_ns, int32_t without) {
  for (int32_t rank = first_; rank < first_ + count_; ++rank) {
    if (rank != without) writer_->on_collective(call(rank, time_ns));
  }
}

void TestNode::stall(int32_t rank, int32_t line, int64_t since_ns, int64_t time_ns) {
  store::EventRow row;
  row.origin = origin(rank, time_ns);
  row.kind = "stalled";
  row.json = to_text({{"since_ns", since_ns + skew_ns_},
                      {"stalled_ms", (time_ns - since_ns) / 1'000'000},
                      {"waiting", nullptr},
                      {"phase", nullptr},
                      {"evaluating", false},
                      {"torch_calls_since", 0},
                      {"stack", {{{"file", "train.py"}, {"line", line}, {"function", "main"}}}},
                      {"flight", Json::object()}});
  writer_->on_event(row);
}

void TestNode::flush(int64_t time_ns) {
  (void)writer_->flush();
  look_.moment.time_ns = time_ns + skew_ns_;
  look_.stored_ns = time_ns + skew_ns_;
  (void)write_look(info_.dir, to_text(look_.to_json()));
}

void TestNode::end(int64_t time_ns) {
  (void)writer_->seal();
  info_.status = "finished";
  info_.ended = static_cast<double>(time_ns) / 1e9;
  for (auto& process : look_.moment.processes) {
    process.alive = false;
    process.closed = true;
    process.exit_code = 0;
    info_.ranks.push_back({process.rank, process.pid, info_.host, "finished", 10});
  }
  (void)writer_->write_info(info_);
  look_.ended = true;
  flush(time_ns);
}

}  // namespace paramedic::nodes
