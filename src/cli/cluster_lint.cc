#include <fmt/format.h>
#include <unistd.h>

#include <iostream>
#include <iterator>
#include <utility>

#include "cli/cluster.h"
#include "cli/render_json.h"
#include "cli/render_text.h"
#include "cli/text.h"
#include "cluster/lint/lint.h"
#include "cluster/lint/read_setting.h"
#include "supervise/host_facts.h"
#include "supervise/process.h"

namespace paramedic::cli {
namespace {

// Of contract.md, as `check` has it: 1 where something is wrong.
constexpr int kErrorCode = 1;

std::string this_host() {
  char name[256] = "";
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

Result<cluster::JobSettings> own_settings() {
  const auto text = supervise::read_small_file("/proc/self/environ");
  if (!text) return io_error("the environment of this process cannot be read from /proc");
  cluster::JobSettings job;
  cluster::Setting setting;
  setting.name = "this environment";
  cluster::add_variables(*text, 0, setting);
  cluster::name_setting(setting);
  setting.host = this_host();
  setting.limits = supervise::read_limits("/proc", ::getpid());
  job.processes.push_back(std::move(setting));
  return job;
}

// A process of this machine is named by its file: its host, pid and limits are known.
void add_process_facts(const std::string& path, cluster::Setting& setting) {
  constexpr const char* kFolder = "/proc/";
  if (!path.starts_with(kFolder) || !path.ends_with("/environ")) return;
  const std::string middle = path.substr(6, path.size() - 6 - 8);
  setting.host = this_host();
  const auto pid = cluster::whole_number(middle);
  if (!pid) return;
  setting.pid = static_cast<int32_t>(*pid);
  setting.limits = supervise::read_limits("/proc", setting.pid);
}

Result<std::string> read_input(const std::string& word) {
  if (word == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  // Files of /proc tell no size.
  if (const auto text = supervise::read_small_file(word)) return *text;
  return posix_file_system().read(word);
}

// Only what the rules ask of this host: the names of meeting points, the ports of rank 0.
void add_host_facts(cluster::JobSettings& job) {
  const std::string host = this_host();
  if (job.facts(host) != nullptr) return;
  bool is_here = false;
  for (const cluster::Setting& setting : job.processes) is_here |= setting.host == host;
  if (!is_here) return;
  cluster::HostFacts facts = supervise::read_host_facts(host);
  for (const cluster::Setting& setting : job.processes) {
    const std::string* address = setting.variable("MASTER_ADDR");
    if (address == nullptr || setting.host != host || facts.names.contains(*address)) continue;
    facts.names[*address] = supervise::resolve_name(*address);
  }
  for (const auto& [port, inode] : supervise::listening_ports("/proc")) {
    facts.listeners[port] = {};
    for (const cluster::Setting& setting : job.processes) {
      const bool holds = setting.pid != 0 && supervise::holds_socket("/proc", setting.pid, inode);
      if (holds) facts.listeners[port].pid = setting.pid;
    }
  }
  job.hosts.push_back(std::move(facts));
}

void print_text(const std::vector<rules::Finding>& findings, size_t processes, Console& console) {
  const Paint paint(console.color_out);
  for (const rules::Finding& finding : findings) {
    console.out << problem_line(finding, paint) << "\n";
    const auto paragraph = [&](const std::string& text) {
      for (const std::string& line : wrap(clean(text), console.width - 4)) {
        console.out << "    " << line << "\n";
      }
    };
    paragraph(finding.message);
    for (const std::string& line : finding.evidence) paragraph(line);
    paragraph("fix: " + finding.fix);
  }
  console.out << (findings.empty() ? "nothing wrong" : fmt::format("{} found", findings.size()))
              << fmt::format(" ({} rules, {} {})\n", cluster::lint_rules().size(), processes,
                             processes == 1 ? "process" : "processes");
}

Result<int> run_lint(const Arguments& arguments, Console& console) {
  PARAMEDIC_ASSIGN(const cluster::JobSettings job,
                   read_job_settings(arguments.positionals("FILE")));
  const auto findings = cluster::lint(job, cluster::LintMode::kAsked);
  bool any_error = false;
  for (const rules::Finding& finding : findings) {
    any_error = any_error || finding.severity == rules::Severity::kError;
  }
  if (arguments.flag("json")) {
    Json all = Json::array();
    for (const rules::Finding& finding : findings) all.push_back(finding.to_json());
    Json hosts = Json::array();
    for (const cluster::HostFacts& facts : job.hosts) hosts.push_back(facts.to_json());
    console.out << to_text({{"schema", kJsonSchema},
                            {"findings", std::move(all)},
                            {"processes", job.processes.size()},
                            {"hosts", std::move(hosts)}})
                << "\n";
  } else {
    print_text(findings, job.processes.size(), console);
  }
  return any_error ? kErrorCode : 0;
}

}  // namespace

Result<cluster::JobSettings> read_job_settings(const std::vector<std::string>& words) {
  cluster::JobSettings job;
  if (words.empty()) {
    PARAMEDIC_ASSIGN(job, own_settings());
  }
  for (const std::string& word : words) {
    PARAMEDIC_ASSIGN(const std::string text, read_input(word));
    PARAMEDIC_ASSIGN(cluster::JobSettings part, cluster::read_settings(text, word));
    for (cluster::Setting& setting : part.processes) {
      add_process_facts(word, setting);
      job.processes.push_back(std::move(setting));
    }
    for (cluster::HostFacts& facts : part.hosts) job.hosts.push_back(std::move(facts));
  }
  add_host_facts(job);
  return job;
}

Command cluster_lint_command() {
  Command command;
  command.name = "lint";
  command.summary = "errors in the configuration of the ranks";
  command.about =
      "Checks what the ranks of a job are started with: MASTER_ADDR and MASTER_PORT, RANK, "
      "WORLD_SIZE, the variables of NCCL, gloo and torchrun, TF_CONFIG, limits. Without FILE it "
      "reads its own environment; put it where the training command would stand. Several files, "
      "one for each rank, are judged together: what differs between ranks is found that way. "
      "A file is the output of `env`, of `export -p` or `srun -l env`, JSON, or "
      "/proc/PID/environ; JSON may also hold the `hosts` that this command prints on each host. "
      "Exit code 1 when there is an error.";
  command.options = {json_option()};
  command.positionals = {
      {.name = "FILE", .help = "environments of the ranks, or - for standard input", .many = true}};
  command.examples = {{"paramedic cluster lint", "the environment that a job would get here"},
                      {"paramedic cluster lint rank-*.env", "of all ranks, compared"},
                      {"srun -l env | paramedic cluster lint -", "of all tasks of a Slurm job"}};
  command.run = run_lint;
  return command;
}

}  // namespace paramedic::cli
