#include "nodes/courier.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "cli/command.h"

namespace paramedic::cli {
namespace {

// The agent is gone: what is left is brought if the collector can be reached within this.
constexpr int64_t kAloneNs = 60'000'000'000;

Result<nodes::TransportOptions> transport_options(const Arguments& arguments,
                                                  const Console& console) {
  nodes::TransportOptions options;
  PARAMEDIC_ASSIGN(options.address, nodes::parse_address(arguments.text("to")));
  if (!options.address.is_port()) return options;
  PARAMEDIC_ASSIGN(options.token, nodes::read_token(arguments.text("token-file"),
                                                    console.environment(nodes::kTokenVariable)));
  if (const std::string& roots = arguments.text("tls-roots"); !roots.empty()) {
    PARAMEDIC_ASSIGN(options.tls_roots, nodes::read_pem(roots, "CERTIFICATE"));
  }
  return options;
}

void tell(Console& console, const Json& message) {
  console.out << to_text(message) << "\n" << std::flush;
}

Result<int> courier(const Arguments& arguments, Console& console) {
  // Whoever read our messages may be gone; gRPC would write about every failed try.
  ::signal(SIGPIPE, SIG_IGN);
  ::setenv("GRPC_VERBOSITY", "NONE", 0);
  const pid_t agent = ::getppid();
  PARAMEDIC_ASSIGN(const auto options, transport_options(arguments, console));
  auto transport = nodes::make_transport(options);
  if (!transport.ok()) {
    tell(console, {{"note", "no collector: " + transport.status().to_string()}});
    return transport.status();
  }
  nodes::Courier courier(
      {arguments.positional("RUN"), arguments.text("job"), arguments.text("node")},
      std::move(transport).value(),
      {.finding =
           [&](const nodes::Receipt::Finding& found) {
             tell(console, {{"key", found.key}, {"finding", found.json}});
           },
       .note = [&](const std::string& text) { tell(console, {{"note", text}}); }});
  int64_t alone_since_ns = 0;
  while (!courier.is_done()) {
    const int wait_ms = courier.step();
    if (::getppid() != agent && alone_since_ns == 0) alone_since_ns = real_clock().monotonic_ns();
    if (alone_since_ns != 0 &&
        (courier.has_delivered() || real_clock().monotonic_ns() - alone_since_ns > kAloneNs)) {
      break;
    }
    ::poll(nullptr, 0, wait_ms);
  }
  return courier.has_delivered() ? 0 : 1;
}

}  // namespace

Command courier_command() {
  Command command;
  command.name = "courier";
  command.summary = "brings a run folder to a collector";
  command.about =
      "Sends what the folder RUN holds for a collector, and what is added to it, until the run has "
      "ended and everything has arrived. `paramedic run --collector` starts it; by hand it brings "
      "a run whose collector could not be reached.";
  command.options = {
      {.name = "to", .value = "ADDRESS", .help = "as --collector of `run`"},
      {.name = "job", .value = "NAME", .help = "the job that the run belongs to"},
      {.name = "node", .value = "NAME", .help = "what this node is called in it"},
      {.name = "token-file", .value = "FILE", .help = "as --collector-token-file of `run`"},
      {.name = "tls-roots",
       .value = "FILE",
       .help = "certificates (PEM) that the collector's is checked with"}};
  command.positionals = {{.name = "RUN", .help = "folder of a run", .required = true}};
  command.hidden = true;
  command.run = courier;
  return command;
}

}  // namespace paramedic::cli
