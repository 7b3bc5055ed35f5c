#pragma once
// Compares what the nodes of a job were started with: launch settings by the rules of the lint,
// versions, code and variables as between ranks. Each node has compared its own ranks, so one rank
// stands for its node here, and a finding names the node that differs. One thread.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "cluster/lint/setting.h"
#include "rules/finding.h"
#include "store/rows.h"

namespace paramedic::nodes {

class NodeSettings {
 public:
  using Report = std::function<void(const std::string& key, rules::Finding)>;

  [[nodiscard]] static bool is_of_settings(const store::EventRow& row);
  // A row of the node, of one of these kinds, and what it tells; the row's own text is not read.
  void take(const std::string& node, const store::EventRow& row, Json told);
  // Judges when nothing new has come for some seconds, by `time_ns` of the rows.
  void tick(int64_t time_ns, const Report& report);
  // Nothing will come any more.
  void finish(const Report& report);

 private:
  struct Process {
    cluster::Setting setting;
    int32_t pid = 0;
  };
  struct Node {
    Process rank;      // the one that was started last
    Process launcher;  // likewise; no words where there is none
    std::optional<cluster::HostFacts> host;
    Json facts;  // of an adapter, as it was told last; null before
  };

  void take_environment(Node& node, const store::EventRow& row, const Json& told);
  void judge(const Report& report);
  void judge_launch(const Report& report) const;
  void judge_environment(const Report& report) const;

  std::map<std::string, Node> nodes_;
  int64_t newest_ns_ = 0;
  bool is_judged_ = true;
};

}  // namespace paramedic::nodes
