#include "nodes/collector.h"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/text.h"
#include "nodes/flight_server.h"

namespace paramedic::cli {
namespace {

constexpr int64_t kTickMs = 250;
// With --until-end: nodes that are started one after another belong to one job.
constexpr int kIdleTicksMax = 20;

Result<nodes::ServerOptions> server_options(const Arguments& arguments, const Console& console) {
  nodes::ServerOptions options;
  PARAMEDIC_ASSIGN(options.address, nodes::parse_address(arguments.text("listen")));
  if (!options.address.folder.empty()) {
    return invalid_argument("--listen: a folder cannot be listened on",
                            "--dir names the folder; without --listen its parts are read there");
  }
  PARAMEDIC_ASSIGN(options.token, nodes::read_token(arguments.text("token-file"),
                                                    console.environment(nodes::kTokenVariable)));
  const std::string& certificate = arguments.text("tls-certificate");
  const std::string& key = arguments.text("tls-key");
  if (options.address.has_tls != (!certificate.empty() && !key.empty())) {
    return invalid_argument("grpc+tls:// needs --tls-certificate and --tls-key, grpc:// neither");
  }
  if (options.address.has_tls) {
    PARAMEDIC_ASSIGN(options.tls_certificate, posix_file_system().read(certificate));
    PARAMEDIC_ASSIGN(options.tls_key, posix_file_system().read(key));
  }
  return options;
}

// Waits a tick; whether somebody asked us to end.
bool is_asked_to_end(const sigset_t& signals) {
  const timespec tick{0, kTickMs * 1'000'000};
  return ::sigtimedwait(&signals, nullptr, &tick) > 0;
}

std::string line_of(const std::string& job, const rules::Finding& finding) {
  const std::string at = finding.step ? fmt::format(" at step {}", *finding.step) : "";
  return fmt::format("{}: {} {}{}: {}", clean(job), rules::severity_name(finding.severity),
                     finding.id, at, clean(finding.message));
}

Result<int> collector(const Arguments& arguments, Console& console) {
  ::signal(SIGPIPE, SIG_IGN);
  ::setenv("GRPC_VERBOSITY", "NONE", 0);
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGINT);
  ::sigaddset(&signals, SIGTERM);
  // Before any thread starts, so that they all leave them to us.
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  const std::string dir = std::filesystem::absolute(arguments.text("dir")).lexically_normal();
  PARAMEDIC_TRY(posix_file_system().make_folders(dir));
  nodes::InboxLimits limits;
  if (arguments.option("max-disk").given) {
    limits.job_bytes_max = static_cast<uint64_t>(arguments.number("max-disk"));
  }
  nodes::Collector collector(
      dir,
      {.finding =
           [&](const std::string& job, const rules::Finding& finding) {
             console.out << line_of(job, finding) << "\n" << std::flush;
           },
       .note = [&](const std::string& text) { console.out << clean(text) << "\n"
                                                          << std::flush; }},
      limits);
  std::unique_ptr<nodes::FlightServer> server;
  if (!arguments.text("listen").empty()) {
    PARAMEDIC_ASSIGN(auto options, server_options(arguments, console));
    options.take = [&](const nodes::Parcel& parcel) { return collector.take(parcel); };
    nodes::Address address = options.address;
    PARAMEDIC_ASSIGN(server, nodes::FlightServer::start(std::move(options)));
    address.port = server->port();
    console.out << "listening on " << address.text() << ", jobs in " << dir << "\n" << std::flush;
  }
  const bool until_end = arguments.flag("until-end");
  int idle_ticks = 0;
  do {
    collector.tick(real_clock().monotonic_ns());
    idle_ticks = collector.is_idle() ? idle_ticks + 1 : 0;
    if (until_end && idle_ticks > kIdleTicksMax) break;
  } while (!is_asked_to_end(signals));
  return 0;
}

}  // namespace

Command collector_command() {
  Command command;
  command.name = "collector";
  command.summary = "compares the ranks of all nodes of a job";
  command.about =
      "Takes what the agents of a job's nodes see (`paramedic run --collector`), compares all "
      "ranks "
      "with each other by the same watches as on one node, writes what it finds into a run folder "
      "DIR/JOB, and tells the nodes. `paramedic show` reads that folder as any run.\n\n"
      "Without --listen it reads what nodes write into DIR themselves: a folder that all of them "
      "share. It can be stopped and started again at any time: nodes send again what it does "
      "not have.\n\n"
      "Every call needs the token in PARAMEDIC_COLLECTOR_TOKEN or --token-file. Without TLS the "
      "token and the rows cross the network as they are.";
  command.options = {
      dir_option(),
      {.name = "listen",
       .value = "ADDRESS",
       .help = "grpc://INTERFACE:PORT or grpc+tls://INTERFACE:PORT, such as grpc://0.0.0.0:7071; "
               "port 0 = a free one, which is printed"},
      {.name = "token-file", .value = "FILE", .help = "where the token is, if not in the variable"},
      {.name = "tls-certificate", .value = "FILE", .help = "of this collector, PEM"},
      {.name = "tls-key", .value = "FILE", .help = "its private key, PEM"},
      {.name = "until-end",
       .kind = OptionKind::kFlag,
       .value = "",
       .help = "end some seconds after the last job has ended"},
      {.name = "max-disk",
       .kind = OptionKind::kBytes,
       .value = "SIZE",
       .help = "how much one job may store; then its nodes are refused",
       .fallback = "64GiB",
       .min = 1 << 20}};
  command.examples = {
      {"paramedic collector --listen grpc://0.0.0.0:7071", "on a machine that all nodes reach"},
      {"paramedic collector --dir /shared/runs", "no network: the nodes write there themselves"}};
  command.run = collector;
  return command;
}

}  // namespace paramedic::cli
