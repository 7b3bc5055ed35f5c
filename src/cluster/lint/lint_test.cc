#include "cluster/lint/lint.h"
#include "cluster/lint/tf_config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "cluster/lint/read_setting.h"

namespace paramedic::cluster {
namespace {

using Variables = std::map<std::string, std::string>;

Setting process_with(Variables variables, const std::string& host = "a") {
  Setting setting;
  setting.variables = std::move(variables);
  setting.host = host;
  setting.name = "a process";
  name_setting(setting);
  return setting;
}

// `ranks` ranks that are started well, on hosts that know each other.
JobSettings healthy(int ranks, int hosts = 1) {
  JobSettings job;
  for (int rank = 0; rank < ranks; ++rank) {
    const int each = ranks / hosts;
    job.processes.push_back(process_with({{"RANK", std::to_string(rank)},
                                          {"WORLD_SIZE", std::to_string(ranks)},
                                          {"LOCAL_RANK", std::to_string(rank % each)},
                                          {"LOCAL_WORLD_SIZE", std::to_string(each)},
                                          {"MASTER_ADDR", hosts == 1 ? "localhost" : "node0"},
                                          {"MASTER_PORT", "29500"},
                                          {"OMP_NUM_THREADS", "1"}},
                                         std::string(1, static_cast<char>('a' + rank / each))));
    job.processes.back().limits = {{"open_files", 65536}};
  }
  for (int host = 0; host < hosts; ++host) {
    HostFacts facts;
    facts.host = std::string(1, static_cast<char>('a' + host));
    facts.cores = 8;
    facts.devices = ranks / hosts;
    facts.interfaces = {{"lo", {"127.0.0.1"}, 65536},
                        {"eth0", {"10.0.0." + std::to_string(1 + host)}, 1500},
                        {"docker0", {"172.17.0.1"}, 1500}};
    facts.names = {{"node0", {"10.0.0.1"}}, {"localhost", {"127.0.0.1"}}};
    facts.shared_memory_bytes = 8ULL << 30;
    facts.clock_offset_ms = 0;
    job.hosts.push_back(facts);
  }
  return job;
}

const LintRule& rule(const std::string& name) {
  for (const LintRule& known : lint_rules()) {
    if (name == known.name) return known;
  }
  ADD_FAILURE() << "no rule " << name;
  return lint_rules().front();
}

// The findings of the whole lint, when the first of them is by `name`.
std::vector<rules::Finding> only(const std::string& name, const JobSettings& job) {
  auto findings = lint_by(rule(name), job, LintMode::kAsked);
  EXPECT_FALSE(findings.empty()) << name << " found nothing";
  if (findings.empty()) findings.emplace_back();
  return findings;
}

void set(JobSettings& job, size_t at, const std::string& name, const std::string& value) {
  job.processes[at].variables[name] = value;
  name_setting(job.processes[at]);
}

void set_all(JobSettings& job, const std::string& name, const std::string& value) {
  for (size_t at = 0; at < job.processes.size(); ++at) set(job, at, name, value);
}

TEST(lint, every_rule_has_a_name_of_its_own) {
  std::set<std::string> names;
  for (const LintRule& known : lint_rules()) EXPECT_TRUE(names.insert(known.name).second);
}

TEST(lint, a_job_that_is_started_well_has_no_finding) {
  EXPECT_TRUE(lint(healthy(4), LintMode::kAsked).empty());
  EXPECT_TRUE(lint(healthy(8, 2), LintMode::kAsked).empty());
  EXPECT_TRUE(lint(JobSettings(), LintMode::kAsked).empty());
}

TEST(lint, advice_is_only_a_note_at_the_start_of_a_run) {
  JobSettings job = healthy(2);
  set_all(job, "NCCL_BLOCKING_WAIT", "1");
  EXPECT_EQ(lint(job, LintMode::kAsked).at(0).severity, rules::Severity::kWarning);
  EXPECT_EQ(lint(job, LintMode::kAtStart).at(0).severity, rules::Severity::kInfo);
}

TEST(lint, a_finding_says_where_the_start_script_sets_the_variable_of_that_rank) {
  JobSettings job = healthy(3);
  for (Setting& process : job.processes) {
    process.script = "/job/start.sh";
    process.assignments = read_assignments(
        "export WORLD_SIZE=3 MASTER_ADDR=localhost\n"
        "RANK=0 MASTER_PORT=29500 python train.py &\n"
        "RANK=1 MASTER_PORT=29500 python train.py &\n"
        "RANK=2 MASTER_PORT=\"29501\" python train.py &\n");
  }
  set(job, 2, "MASTER_PORT", "29501");
  const auto found = only("master_port_differs", job);
  EXPECT_EQ(found[0].rank, 2);
  ASSERT_TRUE(found[0].where);
  EXPECT_EQ(found[0].where->file, "/job/start.sh");
  EXPECT_EQ(found[0].where->line, 4);
}

TEST(launch_rules, a_rank_that_is_no_number) {
  JobSettings job = healthy(2);
  set(job, 1, "RANK", "");
  EXPECT_NE(only("rank_no_number", job)[0].message.find("RANK of rank 1 is ''"), std::string::npos);
}

TEST(launch_rules, a_rank_that_runs_twice_names_it_and_the_one_that_is_missing) {
  JobSettings job = healthy(4);
  set(job, 3, "RANK", "2");
  const auto found = only("rank_duplicate", job);
  EXPECT_EQ(found[0].rank, 2);
  EXPECT_NE(found[0].message.find("none has rank 3"), std::string::npos);
}

TEST(launch_rules, a_rank_without_a_process) {
  JobSettings job = healthy(4);
  job.processes.erase(job.processes.begin() + 1);
  EXPECT_NE(only("rank_missing", job)[0].message.find("with rank 1"), std::string::npos);
  job.processes.resize(1);
  EXPECT_TRUE(lint_by(rule("rank_missing"), job, LintMode::kAsked).empty());
}

TEST(launch_rules, a_rank_beyond_the_world) {
  JobSettings job = healthy(4);
  set(job, 3, "RANK", "4");
  EXPECT_EQ(only("rank_out_of_range", job)[0].rank, 4);
}

TEST(launch_rules, a_world_size_that_differs_on_one_rank) {
  JobSettings job = healthy(4);
  set(job, 1, "WORLD_SIZE", "3");
  EXPECT_EQ(only("world_size_differs", job)[0].rank, 1);
}

TEST(launch_rules, world_sizes_without_a_majority_accuse_nobody) {
  JobSettings job = healthy(2);
  set(job, 1, "WORLD_SIZE", "3");
  const auto found = only("world_size_differs", job);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_FALSE(found[0].rank);
}

TEST(launch_rules, a_local_rank_beyond_the_accelerators) {
  JobSettings job = healthy(4);
  job.hosts[0].devices = 2;
  EXPECT_EQ(only("local_rank_beyond_devices", job)[0].rank, 2);
  job.hosts[0].devices = 0;
  EXPECT_TRUE(lint_by(rule("local_rank_beyond_devices"), job, LintMode::kAsked).empty());
}

TEST(launch_rules, a_local_rank_twice_on_a_host) {
  JobSettings job = healthy(4);
  set(job, 3, "LOCAL_RANK", "0");
  EXPECT_EQ(only("local_rank_duplicate", job)[0].rank, 3);
}

TEST(launch_rules, a_world_size_that_is_no_product) {
  JobSettings job = healthy(4);
  set_all(job, "NNODES", "2");
  only("world_size_no_product", job);
}

// Launchers of two nodes.
JobSettings launchers(const std::string& first, const std::string& second) {
  JobSettings job;
  for (const std::string& line : {first, second}) {
    Setting setting;
    setting.name = "torchrun";
    std::istringstream words("torchrun " + line);
    for (std::string word; words >> word;) setting.launch.push_back(word);
    job.processes.push_back(setting);
  }
  return job;
}

TEST(launch_rules, launchers_that_were_told_different_things) {
  only("nnodes_differ", launchers("--nnodes 2 --rdzv-id 7", "--nnodes=3 --rdzv-id=7"));
  only("rdzv_id_differs", launchers("--nnodes 2 --rdzv_id 7", "--nnodes 2 --rdzv-id=8"));
  only("rdzv_endpoint_differs",
       launchers("--nnodes 2 --rdzv-endpoint a:1", "--nnodes 2 --rdzv-endpoint b:1"));
  only("rdzv_port_zero", launchers("--nnodes 2 --rdzv-endpoint a:0", "--nnodes 2"));
  only("node_rank_wrong", launchers("--nnodes 2", "--nnodes 2"));
  only("node_rank_wrong", launchers("--nnodes 2 --node-rank 2", "--nnodes 2"));
  const auto well = launchers("--nnodes 2 --node-rank 0", "--nnodes 2 --node-rank 1");
  EXPECT_TRUE(lint(well, LintMode::kAsked).empty());
  EXPECT_TRUE(lint(launchers("--standalone", "--standalone"), LintMode::kAsked).empty());
}

TEST(address_rules, a_rank_without_a_meeting_point) {
  JobSettings job = healthy(2);
  job.processes[1].variables.erase("MASTER_PORT");
  EXPECT_EQ(only("master_missing", job)[0].rank, 1);
}

TEST(address_rules, an_address_that_differs_on_one_rank) {
  JobSettings job = healthy(4);
  set(job, 2, "MASTER_ADDR", "10.9.9.9");
  EXPECT_EQ(only("master_addr_differs", job)[0].rank, 2);
  set(job, 2, "MASTER_ADDR", "127.0.0.1");  // another word for localhost
  EXPECT_TRUE(lint_by(rule("master_addr_differs"), job, LintMode::kAsked).empty());
  set(job, 2, "MASTER_ADDR", "node0");  // this host
  EXPECT_TRUE(lint_by(rule("master_addr_differs"), job, LintMode::kAsked).empty());
}

TEST(address_rules, a_name_that_cannot_be_resolved) {
  JobSettings job = healthy(4);
  job.hosts[0].names["gpu-07.local"] = {};
  set_all(job, "MASTER_ADDR", "gpu-07.local");
  EXPECT_FALSE(only("master_addr_unknown", job)[0].rank);
  job = healthy(4);
  job.hosts[0].names["gpu-07.local"] = {};
  set(job, 1, "MASTER_ADDR", "gpu-07.local");
  EXPECT_EQ(only("master_addr_unknown", job)[0].rank, 1);
}

TEST(address_rules, addresses_that_other_hosts_cannot_reach) {
  JobSettings job = healthy(4, 2);
  set_all(job, "MASTER_ADDR", "127.0.0.1");
  only("master_addr_loopback", job);
  set_all(job, "MASTER_ADDR", "172.17.0.1");
  only("master_addr_docker", job);
  set_all(job, "MASTER_ADDR", "six");
  job.hosts[0].names["six"] = {"fd00::1"};
  only("master_addr_ipv6_only", job);
}

TEST(address_rules, ports_that_are_none_or_differ) {
  JobSettings job = healthy(4);
  set(job, 0, "MASTER_PORT", "295000");
  EXPECT_EQ(only("master_port_invalid", job)[0].rank, 0);
  EXPECT_EQ(only("master_port_differs", job)[0].rank, 0);
  set_all(job, "MASTER_PORT", "80");
  only("master_port_privileged", job);
}

TEST(address_rules, a_port_that_a_stranger_holds) {
  JobSettings job = healthy(2);
  job.processes[0].pid = 10;
  job.processes[0].ancestors = {9};
  job.hosts[0].listeners[29500] = {77, "python -m http.server"};
  const auto found = only("master_port_busy", job);
  EXPECT_EQ(found[0].id, "port_in_use");
  EXPECT_NE(found[0].message.find("http.server (pid 77)"), std::string::npos);
  for (const int32_t own : {9, 10}) {
    job.hosts[0].listeners[29500] = {own, ""};
    EXPECT_TRUE(lint_by(rule("master_port_busy"), job, LintMode::kAsked).empty());
  }
}

TEST(address_rules, a_port_that_killed_rank_0_was_held_before_its_end) {
  JobSettings job = healthy(2);
  job.processes[0].last_ns = 50;
  job.hosts[0].listeners[29500] = {77, "nginx", 40};
  only("master_port_busy", job);
  for (const int64_t since_ns : {0, 50, 60}) {
    job.hosts[0].listeners[29500].since_ns = since_ns;
    EXPECT_TRUE(lint_by(rule("master_port_busy"), job, LintMode::kAsked).empty());
  }
}

TEST(network_rules, an_interface_that_does_not_exist) {
  JobSettings job = healthy(4);
  set(job, 1, "GLOO_SOCKET_IFNAME", "ib7");
  EXPECT_EQ(only("interface_absent", job)[0].rank, 1);
  set_all(job, "GLOO_SOCKET_IFNAME", "ib7");
  EXPECT_FALSE(only("interface_absent", job)[0].rank);
  set_all(job, "GLOO_SOCKET_IFNAME", "eth");  // only NCCL takes prefixes
  only("interface_absent", job);
  set_all(job, "GLOO_SOCKET_IFNAME", "eth0");
  set_all(job, "NCCL_SOCKET_IFNAME", "eth");
  EXPECT_TRUE(lint_by(rule("interface_absent"), job, LintMode::kAsked).empty());
}

TEST(network_rules, choices_that_meet_nobody) {
  JobSettings job = healthy(4, 2);
  set_all(job, "NCCL_SOCKET_IFNAME", "^docker0");
  only("interface_leaves_loopback", job);
  set_all(job, "NCCL_SOCKET_IFNAME", "lo");
  only("interface_loopback_between_hosts", job);
  set_all(job, "GLOO_SOCKET_IFNAME", "eth0");
  only("interfaces_disagree", job);
  set_all(job, "NCCL_SOCKET_IFNAME", "eth0");
  job.hosts[1].interfaces[1] = {"eth0", {"10.7.0.2"}, 9000};
  only("interface_subnets_differ", job);
  only("mtu_differs", job);
}

TEST(variable_rules, what_some_ranks_have_only) {
  JobSettings job = healthy(4);
  set(job, 3, "NCCL_IB_DISABLE", "1");
  const auto found = only("nccl_on_some_ranks", job);
  EXPECT_EQ(found[0].id, "environment_difference");
  EXPECT_EQ(found[0].rank, 3);
  job = healthy(2);
  set(job, 1, "NCCL_DEBUG", "INFO");
  EXPECT_EQ(only("nccl_debug_not_on_rank_0", job)[0].rank, 0);
}

TEST(variable_rules, names_and_values_that_hurt) {
  JobSettings job = healthy(2);
  set_all(job, "TORCH_NCCL_TRACE_BUFFER_SIZE", "0");
  only("variable_deprecated", job);
  only("flight_recorder_off", job);
  set_all(job, "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "10");
  only("heartbeat_before_dump", job);
  set_all(job, "TORCH_NCCL_ASYNC_ERROR_HANDLING", "0");
  only("no_error_handling", job);
}

TEST(variable_rules, more_threads_than_cores) {
  JobSettings job = healthy(4);
  set_all(job, "OMP_NUM_THREADS", "4");
  EXPECT_EQ(only("threads_beyond_cores", job)[0].id, "cpu_oversubscription");
  set_all(job, "OMP_NUM_THREADS", "2");
  EXPECT_TRUE(lint_by(rule("threads_beyond_cores"), job, LintMode::kAsked).empty());
}

TEST(limit_rules, what_a_host_does_not_grant) {
  JobSettings job = healthy(4, 2);
  job.hosts[0].shared_memory_bytes = 64U << 20;
  only("shared_memory_small", job);
  job.processes[1].limits["open_files"] = 256;
  only("open_files_few", job);
  job.hosts[0].has_infiniband = true;
  job.processes[0].limits["locked_bytes"] = 65536;
  only("locked_memory_limited", job);
  job.hosts[1].clock_offset_ms = -1500;
  EXPECT_EQ(only("clocks_differ", job)[0].id, "clock_skew");
}

// Workers with the TF_CONFIGs of their tasks.
JobSettings tasks(const std::vector<std::string>& configs) {
  JobSettings job;
  for (const std::string& config : configs)
    job.processes.push_back(process_with({{"TF_CONFIG", config}}));
  return job;
}

std::string tf_config(const std::string& cluster, const std::string& type, int index) {
  return R"({"cluster": {)" + cluster + R"(}, "task": {"type": ")" + type + R"(", "index": )" +
         std::to_string(index) + "}}";
}

constexpr const char* kWorkers = R"("worker": ["10.0.0.1:7000", "10.0.0.2:7000"])";

TEST(tf_config_rules, a_good_one_has_no_finding) {
  EXPECT_TRUE(lint(tasks({tf_config(kWorkers, "worker", 0), tf_config(kWorkers, "worker", 1)}),
                   LintMode::kAsked)
                  .empty());
  EXPECT_TRUE(lint(tasks({"{}"}), LintMode::kAsked).empty());
}

TEST(tf_config_rules, a_task_has_the_place_that_it_has_among_the_ranks) {
  const std::string cluster = R"("chief": ["a:1"], "worker": ["a:2", "a:3"], "ps": ["a:4"])";
  const auto rank = [&](const std::string& type, int index) {
    return parse_tf_config(tf_config(cluster, type, index)).rank();
  };
  EXPECT_EQ(rank("chief", 0), 0);
  EXPECT_EQ(rank("worker", 1), 2);
  EXPECT_EQ(rank("ps", 0), 3);
  EXPECT_EQ(rank("evaluator", 0), 4);
}

TEST(tf_config_rules, one_that_cannot_be_read) {
  for (const char* text : {"{'cluster': {}}", "{", "[]", R"({"task": {}})",
                           R"({"cluster": {"worker": "a:1"}, "task": {"type": "worker"}})",
                           R"({"cluster": {"worker": ["a:1"]}})",
                           R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker"}})"}) {
    only("tf_config_unreadable", tasks({text}));
  }
}

TEST(tf_config_rules, tasks_that_are_not_in_the_cluster) {
  only("tf_task_unknown", tasks({tf_config(kWorkers, "ps", 0)}));
  const auto found = only("tf_index_out_of_range", tasks({tf_config(kWorkers, "worker", 2)}));
  EXPECT_NE(found[0].message.find("from 0 to 1"), std::string::npos);
  EXPECT_EQ(found[0].rank, 2);
}

TEST(tf_config_rules, tasks_that_do_not_fit_each_other) {
  const std::string first = tf_config(kWorkers, "worker", 0);
  only("tf_task_duplicate", tasks({first, first}));
  const std::string chief = R"("chief": ["10.0.0.9:7000"], )" + std::string(kWorkers);
  only("tf_task_missing", tasks({tf_config(chief, "worker", 0), tf_config(chief, "worker", 1)}));
  only("tf_cluster_differs", tasks({first, tf_config(chief, "worker", 1)}));
}

TEST(tf_config_rules, addresses_that_cannot_be) {
  only("tf_address_duplicate", tasks({tf_config(R"("worker": ["a:1", "a:1"])", "worker", 0)}));
  only("tf_port_invalid", tasks({tf_config(R"("worker": ["a:0", "b:1111"])", "worker", 0)}));
  only("tf_port_invalid", tasks({tf_config(R"("worker": ["a"])", "worker", 0)}));
  only("tf_loopback_between_hosts",
       tasks({tf_config(R"("worker": ["localhost:1", "b:1"])", "worker", 0)}));
  const std::string local = R"("worker": ["localhost:1", "localhost:2"])";
  EXPECT_TRUE(lint(tasks({tf_config(local, "worker", 0)}), LintMode::kAsked).empty());
}

TEST(tf_config_rules, chiefs_and_evaluators) {
  only("tf_chief_wrong", tasks({tf_config(R"("chief": ["a:1", "b:1"])", "chief", 0)}));
  only("tf_chief_wrong", tasks({tf_config(R"("ps": ["a:1"], "worker": ["b:1"])", "worker", 0)}));
  only("tf_chief_and_worker_0",
       tasks({tf_config(R"("chief": ["a:1"], "worker": ["b:1"])", "chief", 0)}));
  only("tf_evaluator_in_cluster",
       tasks({tf_config(R"("evaluator": ["a:1"], "worker": ["b:1"])", "worker", 0)}));
}

TEST(read_settings, takes_env_export_labels_json_and_proc) {
  const auto names = [](const std::string& text) {
    const auto job = read_settings(text, "file");
    EXPECT_TRUE(job.ok()) << job.status().to_string();
    std::vector<std::string> all;
    if (job.ok()) {
      for (const Setting& process : job->processes) all.push_back(process.name);
    }
    return all;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names("RANK=1\nWORLD_SIZE=2\nBASH_FUNC_x%%=() {  a\n}\n"), Names{"rank 1"});
  EXPECT_EQ(names("declare -x RANK=\"1\"\nexport WORLD_SIZE='2'\n"), Names{"rank 1"});
  EXPECT_EQ(names("0: RANK=0\n1: RANK=1\n0: WORLD_SIZE=2\n1: WORLD_SIZE=2\n"),
            (Names{"rank 0", "rank 1"}));
  EXPECT_EQ(names(R"({"RANK": 3, "WORLD_SIZE": "4"})"), Names{"rank 3"});
  EXPECT_EQ(names(R"([{"RANK": "0", "WORLD_SIZE": "1"}, {"HOSTNAME": "x"}])"),
            (Names{"rank 0", "file"}));
  EXPECT_EQ(names(std::string("RANK=1\0WORLD_SIZE=2\0", 20)), Names{"rank 1"});
  EXPECT_FALSE(read_settings("hello\n", "file").ok());
  EXPECT_FALSE(read_settings("{", "file").ok());
  EXPECT_FALSE(read_settings("", "file").ok());
}

TEST(read_settings, keeps_no_value_that_could_be_a_secret) {
  const auto job = read_settings("RANK=0\nWORLD_SIZE=1\nWANDB_API_KEY=hidden\nFOO=bar\n", "file");
  ASSERT_TRUE(job.ok());
  const std::string text = to_text(job->processes[0].to_json());
  EXPECT_EQ(text.find("hidden"), std::string::npos);
  EXPECT_EQ(text.find("bar"), std::string::npos);
  EXPECT_FALSE(may_show("NCCL_SECRET"));
  EXPECT_TRUE(may_show("NCCL_DEBUG"));
}

TEST(setting, comes_back_from_its_json) {
  JobSettings job = healthy(2);
  Setting& setting = job.processes[1];
  setting.assignments = {{3, "RANK", "1"}};
  setting.script = "s.sh";
  setting.ancestors = {5, 4};
  setting.digests = {{"FOO", "1234"}};
  EXPECT_EQ(Setting::from_json(setting.to_json()).to_json(), setting.to_json());
  job.hosts[0].listeners[80] = {7, "nginx"};
  EXPECT_EQ(HostFacts::from_json(job.hosts[0].to_json()).to_json(), job.hosts[0].to_json());
  EXPECT_EQ(HostFacts::from_json(Json(3)).host, "");
}

}  // namespace
}  // namespace paramedic::cluster
