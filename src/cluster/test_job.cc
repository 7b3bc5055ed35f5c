#include "cluster/test_job.h"

#include <utility>

namespace paramedic::cluster {
namespace {

constexpr int64_t kStartNs = 1'000'000'000'000;
constexpr int64_t kLookNs = 500'000'000;

}  // namespace

TestJob::TestJob(int32_t ranks) {
  std::vector<int32_t> all;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    moment_.processes.push_back(process_of(rank, ranks));
    all.push_back(rank);
  }
  moment_.time_ns = kStartNs;
  world_ = group("0", all);
  cluster_->tick(moment_);
}

TestJob::Group TestJob::group(const std::string& name, std::vector<int32_t> ranks) {
  groups_.push_back(
      {name, name == "0" ? "default_pg" : name, "gloo", store::Members(std::move(ranks)), 1800});
  return &groups_.back();
}

void TestJob::enter(int32_t rank, const std::string& operation, int32_t line, Group group,
                    int32_t peer, std::vector<int64_t> sizes) {
  sites_.push_back({"train.py", line, "main"});
  store::CollectiveRow row;
  row.group = group == nullptr ? world_ : group;
  row.origin = origin_of(rank, now_ns());
  row.sequence = sequences_[{rank, row.group}]++;
  row.operation = operation;
  row.bytes = 4;
  for (const int64_t size : sizes) row.bytes *= static_cast<uint64_t>(size);
  row.sizes = std::move(sizes);
  row.peer = peer;
  row.where = &sites_.back();
  row.entered_ns = now_ns();
  cluster_->on_collective(row);
  entered_[rank] = row;
}

void TestJob::leave(int32_t rank) {
  store::CollectiveRow row = entered_.at(rank);
  row.origin.time_ns = now_ns();
  row.left_ns = now_ns();
  cluster_->on_collective(row);
}

void TestJob::all_reduce_on_all(int calls) {
  for (int call = 0; call < calls; ++call) {
    for (const RankProcess& process : moment_.processes) {
      enter(process.rank, "all_reduce", 50);
      leave(process.rank);
    }
  }
}

void TestJob::event(int32_t rank, const std::string& kind, const Json& json) {
  store::EventRow row;
  row.origin = origin_of(rank, now_ns());
  row.kind = kind;
  row.json = to_text(json);
  cluster_->on_event(row);
}

void TestJob::stall(int32_t rank, const std::vector<store::CallSite>& stack, Stalled stalled) {
  const auto known = stalled_.find(rank);
  Json json{
      {"since_ns", known == stalled_.end() ? now_ns() : known->second["since_ns"].get<int64_t>()},
      {"waiting", nullptr},
      {"phase", nullptr},
      {"evaluating", stalled.evaluating},
      {"torch_calls_since", stalled.torch_calls},
      {"stack", Json::array()},
      {"flight", Json::object()}};
  for (const store::CallSite& frame : stack) {
    json["stack"].push_back(
        {{"file", frame.file}, {"line", frame.line}, {"function", frame.function}});
  }
  if (stalled.enqueued >= 0) {
    json["flight"]["0"] = {{"last_enqueued", stalled.enqueued},
                           {"last_completed", stalled.completed},
                           {"open", nullptr}};
    if (!stalled.operation.empty()) {
      json["flight"]["0"]["open"] = {{"operation", stalled.operation}};
    }
  }
  stalled_[rank] = json;
  event(rank, "stalled", json);
}

void TestJob::resume(int32_t rank) {
  stalled_.erase(rank);
  event(rank, "resumed", {{"stalled_ms", 1}});
}

void TestJob::metric(const std::string& name, double value) {
  cluster_->on_metric({now_ns(), 0, name, value});
}

void TestJob::exit_quietly(int32_t rank, int code) {
  event(rank, "exiting", {{"exception", nullptr}});
  stalled_.erase(rank);
  process(rank).alive = false;
  process(rank).closed = true;
  process(rank).exit_code = code;
}

void TestJob::exit_raising(int32_t rank, const std::string& type, const std::string& message,
                           int32_t line) {
  event(rank, "exiting",
        {{"exception",
          {{"type", type},
           {"message", message},
           {"where", {{"file", "train.py"}, {"line", line}, {"function", "main"}}}}}});
  stalled_.erase(rank);
  process(rank).alive = false;
  process(rank).closed = true;
  process(rank).exit_code = 1;
}

void TestJob::kill(int32_t rank, int signal) {
  stalled_.erase(rank);
  process(rank).alive = false;
  process(rank).exit_signal = signal;
}

void TestJob::pass(double seconds) {
  const int64_t end_ns = now_ns() + static_cast<int64_t>(seconds * 1e9);
  while (now_ns() < end_ns) {
    moment_.time_ns += kLookNs;
    for (const auto& [rank, percent] : busy_percent_) {
      process(rank).tree_cpu_ms += static_cast<uint64_t>(percent * kLookNs / 1e8);
    }
    for (const auto& [rank, json] : stalled_) event(rank, "stalled", json);
    cluster_->tick(moment_);
  }
}

}  // namespace paramedic::cluster
