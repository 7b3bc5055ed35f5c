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
#include "base/log.h"
#include "cli/command.h"
#include "cli/text.h"
#include "nodes/bucket_reader.h"
#include "nodes/flight_server.h"

namespace paramedic::cli {
namespace {

constexpr int64_t kTickMs = 250;
// With --until-end: nodes that are started one after another belong to one job.
constexpr int kIdleTicksMax = 20;

Result<nodes::Address> listening_address(const Arguments& arguments) {
  PARAMEDIC_ASSIGN(nodes::Address address, nodes::parse_address(arguments.text("listen")));
  if (address.folder.empty()) return address;
  return invalid_argument("--listen: a folder cannot be listened on",
                          "--dir names the folder; without --listen its parts are read there");
}

Result<nodes::ServerOptions> server_options(const Arguments& arguments, const Console& console,
                                            const nodes::Address& address) {
  nodes::ServerOptions options;
  options.address = address;
  PARAMEDIC_ASSIGN(options.token, nodes::read_token(arguments.text("token-file"),
                                                    console.environment(nodes::kTokenVariable)));
  const std::string& certificate = arguments.text("tls-certificate");
  const std::string& key = arguments.text("tls-key");
  if (options.address.has_tls != (!certificate.empty() && !key.empty())) {
    return invalid_argument("grpc+tls:// needs --tls-certificate and --tls-key, grpc:// neither");
  }
  if (options.address.has_tls) {
    PARAMEDIC_ASSIGN(options.tls_certificate, nodes::read_pem(certificate, "CERTIFICATE"));
    PARAMEDIC_ASSIGN(options.tls_key, nodes::read_pem(key, "PRIVATE KEY"));
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
  std::unique_ptr<nodes::BucketPoller> poller;
  if (!arguments.text("listen").empty()) {
    PARAMEDIC_ASSIGN(nodes::Address address, listening_address(arguments));
    const auto take = [&](const nodes::Parcel& parcel) { return collector.take(parcel); };
    if (address.is_port()) {
      PARAMEDIC_ASSIGN(auto options, server_options(arguments, console, address));
      options.take = take;
      PARAMEDIC_ASSIGN(server, nodes::FlightServer::start(std::move(options)));
      address.port = server->port();
    } else {
      PARAMEDIC_ASSIGN(auto bucket, nodes::open_bucket(address.bucket));
      poller = std::make_unique<nodes::BucketPoller>(
          nodes::BucketReader(std::move(bucket), take),
          [](const std::string& text) { paramedic::log::warn(text); });
    }
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
       .help =
           "grpc://INTERFACE:PORT or grpc+tls://INTERFACE:PORT, such as grpc://0.0.0.0:7071; "
           "port 0 = a free one, which is printed; or s3://BUCKET/PATH, where the nodes put what "
           "they have to tell"},
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
