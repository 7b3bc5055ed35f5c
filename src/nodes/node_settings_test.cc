#include "nodes/node_settings.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace paramedic::nodes {
namespace {

constexpr int64_t kS = 1'000'000'000;
using Variables = std::map<std::string, std::string>;

// Nodes with two ranks each, whose processes have the same numbers everywhere.
class Job {
 public:
  explicit Job(int nodes) {
    for (int node = 0; node < nodes; ++node) start(node, {}, {});
  }

  static std::string name(int node) { return fmt::format("host-{}", node); }

  // Node `node` begins with `changed` variables, and tells other `versions` than those of the rest.
  void start(int node, const Variables& changed, const Variables& versions, int64_t time_ns = kS) {
    for (int local = 0; local < 2; ++local) {
      cluster::Setting setting;
      setting.host = name(node);
      setting.variables = {{"RANK", std::to_string(node * 2 + local)},
                           {"GROUP_RANK", std::to_string(node)},
                           {"WORLD_SIZE", "6"},
                           {"MASTER_ADDR", "host-0"},
                           {"MASTER_PORT", "29500"},
                           {"HOSTNAME", name(node)}};
      for (const auto& [key, value] : changed) setting.variables[key] = value;
      setting.digests = {{"SOME_VARIABLE", fmt::format("salted by {}", node)}};
      tell(node, 100 + local, time_ns, "environment", setting.to_json());
      Json facts = {
          {"host", name(node)},
          {"values", {{"torch", "2.8"}, {"python", "3.11"}}},
          {"modules", {{"train", {{"file", "train.py"}, {"digest", "d"}, {"lines", ""}}}}}};
      for (const auto& [key, value] : versions) {
        (key == "train" ? facts["modules"]["train"]["digest"] : facts["values"][key]) = value;
      }
      tell(node, 100 + local, time_ns, "facts", facts);
    }
  }

  void launch(int node, const std::string& nnodes) {
    cluster::Setting setting;
    setting.host = name(node);
    setting.launch = {"torchrun", "--nnodes", nnodes, "--node-rank", std::to_string(node)};
    tell(node, 99, kS, "environment", setting.to_json());
  }

  void end(int node) {
    for (int local = 0; local < 2; ++local) {
      tell(node, 100 + local, 2 * kS, "process_ended", {{"pid", 100 + local}});
    }
  }

  std::vector<rules::Finding> judge(int64_t time_ns = 60 * kS) {
    std::vector<rules::Finding> found;
    settings_.tick(time_ns, [&](const std::string&, rules::Finding finding) {
      found.push_back(std::move(finding));
    });
    return found;
  }

 private:
  void tell(int node, int32_t pid, int64_t time_ns, const char* kind, const Json& told) {
    store::EventRow row;
    row.origin.pid = pid;
    row.origin.time_ns = time_ns;
    row.kind = kind;
    settings_.take(name(node), row, told);
  }

  NodeSettings settings_;
};

TEST(NodeSettings, that_are_equal_are_no_finding) {
  Job job(3);
  EXPECT_TRUE(job.judge().empty());
}

TEST(NodeSettings, name_the_node_that_differs_in_a_launch_setting) {
  for (const char* name : {"WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    Job job(3);
    job.start(2, {{name, "7"}}, {});
    // MASTER_ADDR is not asked of node 0, so that of two nodes nobody is the odd one.
    const auto found = job.judge();
    ASSERT_EQ(found.size(), 1U) << name;
    EXPECT_EQ(found[0].id, "cluster_config");
    EXPECT_EQ(found[0].severity, rules::Severity::kError);
    std::string text = found[0].message;
    for (const std::string& line : found[0].evidence) text += "\n" + line;
    EXPECT_NE(text.find("node host-2"), std::string::npos) << text;
    EXPECT_NE(text.find(name), std::string::npos) << text;
  }
}

TEST(NodeSettings, name_the_node_whose_launcher_was_told_otherwise) {
  Job job(3);
  for (int node = 0; node < 3; ++node) job.launch(node, node == 1 ? "2" : "3");
  const auto found = job.judge();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].message,
            "the launchers of one job have different --nnodes: '2' on node host-1; '3' on node "
            "host-0, node host-2");
}

TEST(NodeSettings, name_the_node_with_another_version_or_other_code) {
  for (const char* what : {"torch", "train"}) {
    Job job(3);
    job.start(0, {}, {{what, "2.7"}});
    const auto found = job.judge();
    ASSERT_EQ(found.size(), 1U) << what;
    EXPECT_EQ(found[0].id, "environment_difference");
    EXPECT_EQ(found[0].severity, rules::Severity::kError);
    EXPECT_NE(found[0].message.find("on node host-0"), std::string::npos) << found[0].message;
  }
}

TEST(NodeSettings, wait_for_nodes_that_start_anew_one_after_another) {
  Job job(3);
  EXPECT_TRUE(job.judge().empty());
  // Torchrun begins again, with a port of its own: node 2 comes last.
  job.start(0, {{"MASTER_PORT", "31000"}}, {}, 100 * kS);
  job.start(1, {{"MASTER_PORT", "31000"}}, {}, 101 * kS);
  EXPECT_TRUE(job.judge(103 * kS).empty());
  job.start(2, {{"MASTER_PORT", "31000"}}, {}, 104 * kS);
  EXPECT_TRUE(job.judge(200 * kS).empty());
}

TEST(NodeSettings, of_processes_that_have_ended_are_compared_with_nobody) {
  Job job(3);
  job.start(2, {{"MASTER_PORT", "29501"}}, {});
  job.end(2);
  EXPECT_TRUE(job.judge().empty());
}

}  // namespace
}  // namespace paramedic::nodes
