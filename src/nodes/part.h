#pragma once
// One node's part of a job, as the collector follows it: rows and looks, on the collector's clock.
// One thread.

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "nodes/look.h"
#include "nodes/node_settings.h"
#include "store/run.h"
#include "store/run_tail.h"

namespace paramedic::nodes {

// What the parts of one job have in common.
struct PartShares {
  double oom_kills = 0;  // what the kernels of all nodes have killed
  store::MembersBook members;
  NodeSettings settings;
};

// Moves the rows of one node to the collector's clock. The settings of its processes are compared
// by themselves: numbers of processes mean nothing on other machines.
class NodeRows : public store::RowSink {
 public:
  // Sink and shares outlive this.
  NodeRows(std::string node, store::RowSink& sink, PartShares& shares)
      : node_(std::move(node)), sink_(sink), shares_(shares) {}

  // How much the node's clock shows more; 0 leaves the rows as they are.
  void set_clock(int64_t offset_ns) { offset_ns_ = offset_ns; }
  [[nodiscard]] int64_t moved(int64_t time_ns) const {
    return time_ns == 0 ? 0 : time_ns - offset_ns_;
  }

  void on_stats(const store::StatsRow&) override {}
  void on_histogram(const store::HistogramRow&) override {}
  void on_scalar(const store::ScalarRow& row) override { pass(row, &store::RowSink::on_scalar); }
  void on_event(const store::EventRow& row) override;
  void on_model(const store::ModelRow& row) override { pass(row, &store::RowSink::on_model); }
  void on_tensor_piece(const store::TensorPieceRow&) override {}
  void on_collective(const store::CollectiveRow& row) override;
  void on_metric(const store::MetricRow& row) override;

 private:
  template <typename Row>
  void pass(const Row& row, void (store::RowSink::*callback)(const Row&)) {
    if (offset_ns_ == 0) return (sink_.*callback)(row);
    Row copy = row;
    copy.origin.time_ns = moved(row.origin.time_ns);
    (sink_.*callback)(copy);
  }

  void on_setting(const store::EventRow& row);

  const std::string node_;
  store::RowSink& sink_;
  PartShares& shares_;
  std::optional<double> oom_kills_here_;
  int64_t offset_ns_ = 0;
};

class Part {
 public:
  // `dir`: JOB/nodes/NODE.
  // The sink and what is shared with other parts outlive this.
  Part(std::string dir, store::RowSink& sink, PartShares& shares);

  // Reads what has come, at most `slices_max` slices of rows; `now_ns` is any monotonic clock.
  void read(int64_t now_ns, int slices_max);

  [[nodiscard]] const std::string& node() const { return node_; }
  // Nothing before the node has told about itself.
  [[nodiscard]] const std::optional<store::RunInfo>& info() const { return info_; }
  // Its processes, on the collector's clock.
  [[nodiscard]] const std::vector<cluster::RankProcess>& processes() const { return processes_; }
  [[nodiscard]] const std::optional<ClockOffset>& clock() const { return clock_; }
  // All rows older than this have been passed on; 0 before the first look.
  [[nodiscard]] int64_t told_until_ns() const { return told_until_ns_; }
  // Rows that it had sent before the newest look have not all been passed on yet.
  [[nodiscard]] bool has_more() const { return has_more_; }
  // It has sent everything up to its end, and that has been passed on.
  [[nodiscard]] bool is_done() const { return ended_ && !has_more_; }
  // When it was last heard of, on the clock of `read`.
  [[nodiscard]] int64_t heard_ns() const { return heard_ns_; }
  [[nodiscard]] const std::vector<store::Damage>& damage() const { return tail_.damage(); }

 private:
  [[nodiscard]] bool may_have_more(int64_t now_ns);
  void take(const Look& look);
  void read_info();
  void read_look(int64_t now_ns);

  const std::string dir_;
  const std::string node_;
  store::RunTail tail_;
  NodeRows rows_;
  std::string look_text_;
  std::optional<Look> waiting_;  // until all rows that it speaks of have been passed on
  std::string info_text_;
  std::optional<store::RunInfo> info_;
  std::vector<cluster::RankProcess> processes_;
  std::optional<ClockOffset> clock_;
  // Of look.json as it was read last: inode, size, time.
  std::array<int64_t, 3> look_stamp_ = {};
  int64_t looked_ns_ = 0;
  bool found_rows_ = true;  // when it was looked at last
  int64_t told_until_ns_ = 0;
  int64_t heard_ns_ = 0;
  int64_t newest_look_ns_ = 0;  // on the node's clock
  bool has_more_ = false;
  bool ended_ = false;
};

}  // namespace paramedic::nodes
