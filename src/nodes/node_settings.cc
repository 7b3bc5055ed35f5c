#include "nodes/node_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/lint/difference.h"
#include "cluster/lint/lint.h"

namespace paramedic::nodes {
namespace {

// Launchers that start a job anew do so on one node after another.
constexpr int64_t kSettleNs = 5'000'000'000;
constexpr size_t kNodesMax = 16'384;

// Rules that can be asked of one rank of each node; the others count ranks or look at hosts.
constexpr std::array<std::string_view, 6> kBetweenNodes = {
    "world_size_differs", "master_addr_differs", "master_port_differs",
    "nnodes_differ",      "rdzv_id_differs",     "rdzv_endpoint_differs"};

bool is_between_nodes(const cluster::LintRule& rule) {
  return std::find(kBetweenNodes.begin(), kBetweenNodes.end(), rule.name) != kBetweenNodes.end();
}

std::string name_of(const std::string& node, const cluster::Setting& setting) {
  return "node " + (setting.host.empty() ? node : setting.host);
}

}  // namespace

bool NodeSettings::is_of_settings(const store::EventRow& row) {
  return row.kind == "facts" || row.kind == "environment" || row.kind == "host" ||
         row.kind == "process_ended";
}

void NodeSettings::take(const std::string& node, const store::EventRow& row, Json told) {
  if (!nodes_.contains(node) && nodes_.size() >= kNodesMax) return;
  Node& its = nodes_[node];
  if (row.kind == "facts") {
    its.facts = std::move(told);
  } else if (row.kind == "host") {
    its.host = cluster::HostFacts::from_json(told);
  } else if (row.kind == "environment") {
    take_environment(its, row, told);
  } else {
    // Who has ended is no match for those that are started anew elsewhere.
    for (Process* process : {&its.rank, &its.launcher}) {
      if (process->pid == row.origin.pid) process->setting.last_ns = row.origin.time_ns;
    }
    return;
  }
  newest_ns_ = std::max(newest_ns_, row.origin.time_ns);
  is_judged_ = false;
}

void NodeSettings::take_environment(Node& node, const store::EventRow& row, const Json& told) {
  cluster::Setting setting = cluster::Setting::from_json(told);
  // Digests are salted by each run: they are equal on no two nodes.
  setting.digests.clear();
  if (!setting.is_launcher() && !setting.rank()) return;
  // Rank 0 waits where it is, by whatever name: only the others have to find it.
  if (setting.number("GROUP_RANK") == 0 || setting.rank() == 0) {
    setting.variables.erase("MASTER_ADDR");
  }
  Process& process = setting.is_launcher() ? node.launcher : node.rank;
  process.setting = std::move(setting);
  process.pid = row.origin.pid;
}

void NodeSettings::tick(int64_t time_ns, const Report& report) {
  if (!is_judged_ && time_ns - newest_ns_ >= kSettleNs) judge(report);
}

void NodeSettings::finish(const Report& report) {
  if (!is_judged_) judge(report);
}

void NodeSettings::judge(const Report& report) {
  is_judged_ = true;
  if (nodes_.size() < 2) return;
  judge_launch(report);
  judge_environment(report);
}

void NodeSettings::judge_launch(const Report& report) const {
  cluster::JobSettings job;
  for (const auto& [name, node] : nodes_) {
    if (node.host) job.hosts.push_back(*node.host);
    for (const Process* process : {&node.rank, &node.launcher}) {
      if (process->pid == 0 || process->setting.last_ns != 0) continue;
      job.processes.push_back(process->setting);
      job.processes.back().name = name_of(name, process->setting);
    }
  }
  std::map<std::string, int> counts;
  for (const cluster::LintRule& rule : cluster::lint_rules()) {
    if (!is_between_nodes(rule)) continue;
    for (auto& finding : cluster::lint_by(rule, job, cluster::LintMode::kAtStart)) {
      report(fmt::format("{}/nodes/{}/{}", rule.id, rule.name, counts[rule.name]++),
             std::move(finding));
    }
  }
}

void NodeSettings::judge_environment(const Report& report) const {
  std::vector<cluster::Subject> subjects;
  for (const auto& [name, node] : nodes_) {
    cluster::Subject& subject = subjects.emplace_back();
    if (node.rank.pid != 0 && node.rank.setting.last_ns == 0) {
      cluster::add_setting(node.rank.setting, subject);
    }
    if (node.facts.is_object()) cluster::add_facts(node.facts, subject);
    subject.name = "node " + (subject.host.empty() ? name : subject.host);
    subject.rank.reset();
  }
  for (const cluster::Difference& difference : cluster::differences(subjects)) {
    if (difference.severity < rules::Severity::kWarning) continue;
    rules::Finding finding;
    finding.id = "environment_difference";
    finding.severity = difference.severity;
    finding.stage = "start";
    finding.kind = difference.key;
    finding.confidence = difference.has_majority ? 0.9 : 0.7;
    finding.message = "the nodes differ in " + cluster::difference_text(difference);
    finding.where = difference.where;
    finding.fix = "start all nodes from the same folder, image and variables";
    const std::string key = fmt::format("{}/nodes/{}", finding.id, difference.key);
    report(key, std::move(finding));
  }
}

}  // namespace paramedic::nodes
