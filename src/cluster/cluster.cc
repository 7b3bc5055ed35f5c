#include "cluster/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace paramedic::cluster {
namespace {

// Problems of one watch that are told apart; what comes after them is not told.
constexpr size_t kProblemsMax = 1000;

// One watch, and what it has reported.
class Slot : public Reporter {
 public:
  Slot(const WatchEntry& entry, const Job& job, rules::FindingSink& sink)
      : entry_(entry), job_(job), sink_(sink), watch_(entry.make(*this)) {}

  Watch& watch() { return *watch_; }
  [[nodiscard]] const Job& job() const override { return job_; }
  void arrive_at(int64_t time_ns) { now_ns_ = std::max(now_ns_, time_ns); }

  void report(rules::Finding finding, const std::string& topic) override {
    const std::string who = finding.rank ? fmt::format("rank-{}", *finding.rank) : "ranks";
    std::string key = fmt::format("{}/{}/{}", entry_.info.id, who, topic);
    if (!first_ns_.contains(key) && first_ns_.size() >= kProblemsMax) return;
    const auto [known, is_new] = first_ns_.try_emplace(std::move(key), now_ns_);
    finding.id = entry_.info.id;
    if (finding.fix.empty()) finding.fix = entry_.info.fix;
    finding.time = static_cast<double>(known->second) / 1e9;
    sink_.on_finding(known->first, finding);
  }

 private:
  const WatchEntry& entry_;
  const Job& job_;
  rules::FindingSink& sink_;
  std::unique_ptr<Watch> watch_;
  int64_t now_ns_ = 0;
  std::map<std::string, int64_t> first_ns_;  // by key
};

class ClusterImpl : public Cluster {
 public:
  explicit ClusterImpl(rules::FindingSink& sink) {
    for (const WatchEntry& entry : watch_entries()) {
      slots_.push_back(std::make_unique<Slot>(entry, job_, sink));
    }
  }

  void on_stats(const store::StatsRow& row) override { take(row, &Watch::on_stats); }
  void on_scalar(const store::ScalarRow& row) override { take(row, &Watch::on_scalar); }
  void on_event(const store::EventRow& row) override {
    job_.take(row);
    take(row, &Watch::on_event);
  }
  void on_model(const store::ModelRow& row) override { take(row, &Watch::on_model); }
  void on_collective(const store::CollectiveRow& row) override {
    job_.take(row);
    take(row, &Watch::on_collective);
  }

  void on_metric(const store::MetricRow& row) override {
    job_.take(row);
    for (const auto& slot : slots_) slot->watch().on_metric(row);
  }

  void tick(const Moment& moment) override {
    job_.look(moment);
    for (const auto& slot : slots_) {
      slot->arrive_at(moment.time_ns);
      slot->watch().tick(moment);
    }
  }

  void finish() override {
    for (const auto& slot : slots_) slot->watch().finish();
  }

 private:
  template <typename Row>
  void take(const Row& row, void (Watch::*callback)(const Row&)) {
    for (const auto& slot : slots_) {
      slot->arrive_at(row.origin.time_ns);
      (slot->watch().*callback)(row);
    }
  }

  Job job_;
  std::vector<std::unique_ptr<Slot>> slots_;
};

}  // namespace

std::unique_ptr<Cluster> Cluster::create(rules::FindingSink& sink) {
  return std::make_unique<ClusterImpl>(sink);
}

}  // namespace paramedic::cluster
