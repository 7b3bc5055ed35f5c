#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "cli/cluster.h"
#include "cli/render_json.h"
#include "cli/text.h"
#include "cluster/probe/probe.h"
#include "supervise/host_facts.h"

namespace paramedic::cli {
namespace {

constexpr int kProblemCode = 1;

// Which of the hosts this one is: --self, else the one whose address is ours.
Result<size_t> find_self(const Arguments& arguments, const std::vector<cluster::Peer>& peers) {
  const Value& given = arguments.option("self");
  if (given.given) {
    const auto at = static_cast<size_t>(given.number);
    if (at < peers.size()) return at;
    return invalid_argument(fmt::format("--self {} is outside of the {} hosts", at, peers.size()),
                            "the first host is 0");
  }
  const cluster::HostFacts facts = supervise::read_host_facts("");
  std::optional<size_t> self;
  for (size_t i = 0; i < peers.size(); ++i) {
    const auto addresses = supervise::resolve_name(peers[i].host);
    const bool is_own =
        std::any_of(facts.interfaces.begin(), facts.interfaces.end(), [&](const auto& net) {
          return std::find_first_of(net.addresses.begin(), net.addresses.end(), addresses.begin(),
                                    addresses.end()) != net.addresses.end();
        });
    if (!is_own) continue;
    if (self) return invalid_argument("--hosts names this host twice", "say which one by --self N");
    self = i;
  }
  if (self) return *self;
  return invalid_argument("none of --hosts is this host", "say which one by --self N");
}

Json result_json(const std::vector<cluster::Peer>& peers, const cluster::ProbeResult& result,
                 const std::vector<std::string>& problems) {
  Json paths = Json::array();
  for (size_t from = 0; from < peers.size(); ++from) {
    for (size_t to = 0; result.rows[from] && to < peers.size(); ++to) {
      if (from == to) continue;
      Json path = (*result.rows[from])[to].to_json();
      path["from"] = peers[from].host;
      path["to"] = peers[to].host;
      path["port"] = peers[to].port;
      paths.push_back(std::move(path));
    }
  }
  return {{"schema", kJsonSchema}, {"paths", std::move(paths)}, {"problems", problems}};
}

std::string cell_text(const cluster::Path& path) {
  if (!path.ok()) return path.status;
  return fmt::format("{:.0f} MB/s {:.2f} ms", path.megabytes_per_s, path.latency_ms);
}

void print_text(const std::vector<cluster::Peer>& peers, const cluster::ProbeResult& result,
                const std::vector<std::string>& problems, Console& console) {
  for (size_t from = 0; from < peers.size(); ++from) {
    for (size_t to = 0; to < peers.size(); ++to) {
      if (from == to) continue;
      const std::string cell = result.rows[from] ? cell_text((*result.rows[from])[to]) : "not told";
      console.out << fmt::format("{} → {}  {}\n", pad(peers[from].host, 20),
                                 pad(peers[to].host, 20), cell);
    }
  }
  const Paint paint(console.color_out);
  for (const std::string& problem : problems) {
    console.out << paint(Style::kError, "problem") << "  " << clean(problem) << "\n";
  }
  console.out << (problems.empty() ? "nothing wrong\n" : "");
}

Result<int> run_probe_command(const Arguments& arguments, Console& console) {
  cluster::ProbeOptions options;
  const auto port = static_cast<int32_t>(arguments.number("port"));
  PARAMEDIC_ASSIGN(options.peers, cluster::parse_peers(arguments.option("hosts").list, port));
  PARAMEDIC_ASSIGN(options.self, find_self(arguments, options.peers));
  options.token = arguments.text("token");
  if (options.token.empty() || options.token.find_first_of(" \n\r") != std::string::npos) {
    return invalid_argument("--token is missing, or has a blank in it",
                            "any word, the same on all hosts; it keeps strangers out");
  }
  options.wait_ms = static_cast<int64_t>(arguments.number("wait") * 1000);
  options.bytes = static_cast<uint64_t>(arguments.number("size"));
  PARAMEDIC_ASSIGN(const auto result, cluster::run_probe(options, [&](const std::string& text) {
                     console.err << "paramedic: " << clean(text) << "\n";
                   }));
  const auto problems = cluster::judge_probe(options.peers, result);
  if (arguments.flag("json")) {
    console.out << to_text(result_json(options.peers, result, problems)) << "\n";
  } else {
    print_text(options.peers, result, problems, console);
  }
  return problems.empty() ? 0 : kProblemCode;
}

}  // namespace

Command cluster_probe_command() {
  Command command;
  command.name = "probe";
  command.summary = "the network between hosts, measured from each to each";
  command.about =
      "Start it on every host of a job at about the same time, with the same --hosts and --token. "
      "Each resolves the names, connects to every other one, and measures latency, bandwidth, the "
      "offset of the clock and the MTU; all of them then print the whole matrix, and what is "
      "wrong in it. Use the port that the job will use: that it can be reached is what matters. "
      "Exit code 1 when something is wrong.";
  command.options = {
      json_option(),
      {.name = "hosts",
       .kind = OptionKind::kList,
       .value = "HOSTS",
       .help = "names or addresses, separated by commas; HOST:PORT where the port differs"},
      {.name = "port",
       .kind = OptionKind::kInteger,
       .value = "N",
       .help = "where each host listens",
       .fallback = "29500",
       .min = 1,
       .max = 65535},
      {.name = "token", .value = "WORD", .help = "a word that only these hosts know"},
      {.name = "self",
       .kind = OptionKind::kInteger,
       .value = "N",
       .help = "which of --hosts this one is, from 0; found by its addresses when left out",
       .max = 4096},
      {.name = "wait",
       .kind = OptionKind::kSeconds,
       .value = "TIME",
       .help = "how long the others are waited for",
       .fallback = "60",
       .min = 1,
       .max = 3600},
      {.name = "size",
       .kind = OptionKind::kBytes,
       .value = "SIZE",
       .help = "how much is sent to each host to measure the bandwidth",
       .fallback = "32MiB",
       .min = 1024,
       .max = 1 << 30}};
  command.examples = {{"paramedic cluster probe --hosts node0,node1 --token k7", "on both hosts"}};
  command.run = run_probe_command;
  return command;
}

}  // namespace paramedic::cli
