#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "cli/command.h"
#include "cli/job_options.h"
#include "cli/summary.h"
#include "diagnose/category.h"
#include "nodes/address.h"
#include "nodes/job_name.h"
#include "nodes/parcel.h"
#include "supervise/agent_process.h"
#include "supervise/job.h"
#include "supervise/notifier.h"
#include "supervise/retries.h"

namespace paramedic::cli {
namespace {

// How another node is asked for, by whom.
struct OtherNode {
  std::optional<int> exit_code;  // whoever started us reads it
  std::string target;            // else a URL or command is told
};

Result<OtherNode> other_node(const Arguments& arguments) {
  OtherNode other;
  const std::string& text = arguments.text("other-node");
  int code = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, code);
  if (text.empty() || error != std::errc{} || stop != end) {
    other.target = text;
    return other;
  }
  if (code < 1 || code > 255) {
    return invalid_argument(fmt::format("--other-node: {} is no exit code of a failure", code),
                            "a number from 1 to 255, or a command");
  }
  other.exit_code = code;
  return other;
}

Result<supervise::RetryOptions> retry_options(const Arguments& arguments) {
  supervise::RetryOptions options;
  options.limit = static_cast<int>(arguments.number("retries"));
  options.on = arguments.option("retry-on").list;
  options.delay_s = arguments.number("retry-delay");
  options.asks_for_other_node = !arguments.text("other-node").empty();
  for (const std::string& word : options.on) {
    if (word == "transient" || word == "unknown" || word == "any") continue;
    if (diagnose::category_named(word)) continue;
    return invalid_argument(fmt::format("--retry-on: '{}' is nothing that a job fails of", word),
                            "transient, unknown, any, or categories of `paramedic diagnose`");
  }
  return options;
}

// The command from its start to its end, once, and what is known of it.
struct Attempt {
  supervise::JobOutcome outcome;
  std::optional<store::RunInfo> info;
};

Result<Attempt> attempt(const supervise::JobOptions& options, Console& console) {
  Attempt made;
  PARAMEDIC_ASSIGN(made.outcome, supervise::run_job(options));
  if (!made.outcome.run_dir.empty()) {
    const auto reader = store::RunReader::open(made.outcome.run_dir);
    if (reader.ok()) made.info = (*reader)->info();
  }
  console.err << render_summary(made.outcome, made.info, Paint(console.color_err)) << std::flush;
  return made;
}

// Steps as the job counted them, else as its output did.
int64_t steps_of(const store::RunInfo& info) {
  return std::max(info.steps, integer_or(info.failure, "last_step", -1));
}

int ask_for_other_node(const OtherNode& other, const Attempt& last) {
  if (other.exit_code) return *other.exit_code;
  supervise::Notifier notifier(other.target);
  const Status told = notifier.tell({{"event", "other_node"},
                                     {"dir", last.info->dir},
                                     {"host", last.info->host},
                                     {"failure", last.info->failure}});
  if (!told.ok()) supervise::say(told.message());
  return last.outcome.exit_code;
}

// The name of the run is that of the job on all nodes; each node's own folder gets one by itself.
Status take_collector(const Arguments& arguments, const Console& console,
                      supervise::JobOptions& options) {
  supervise::CollectorOptions& collector = options.collector;
  if (arguments.text("collector").empty()) return {};
  PARAMEDIC_ASSIGN(const nodes::Address address, nodes::parse_address(arguments.text("collector")));
  collector.address = address.text();
  collector.job = std::exchange(options.name, "");
  if (collector.job.empty()) {
    collector.job =
        nodes::job_name([&](const char* variable) { return console.environment(variable); });
  }
  if (!nodes::is_plain_name(collector.job)) {
    return invalid_argument("--collector needs --name, the same on all nodes of the job",
                            "of letters, digits, '.', '_' and '-'");
  }
  collector.token_file = arguments.text("collector-token-file");
  collector.tls_roots = arguments.text("collector-tls-roots");
  collector.starts_one = arguments.flag("start-collector");
  if (!address.is_port()) return {};
  // Here, where the user sees it, and not first in the courier.
  if (!collector.tls_roots.empty()) {
    PARAMEDIC_TRY(nodes::read_pem(collector.tls_roots, "CERTIFICATE").status());
  }
  if (collector.starts_one && address.has_tls) {
    return invalid_argument("--start-collector has no certificate for grpc+tls://",
                            "start `paramedic collector` yourself");
  }
  return nodes::read_token(collector.token_file, console.environment(nodes::kTokenVariable))
      .status();
}

Result<int> run(const Arguments& arguments, Console& console) {
  if (arguments.command().empty()) {
    return invalid_argument("run: there is no command to run", "paramedic run -- python train.py");
  }
  PARAMEDIC_ASSIGN(supervise::JobOptions options, job_options(arguments, console));
  PARAMEDIC_ASSIGN(const supervise::RetryOptions retry, retry_options(arguments));
  PARAMEDIC_ASSIGN(const OtherNode other, other_node(arguments));
  options.has_terminal = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1;
  PARAMEDIC_TRY(take_collector(arguments, console, options));
  const std::string name = options.name;
  const std::string job = options.collector.job;
  supervise::Retries retries(retry);
  PARAMEDIC_ASSIGN(Attempt last, attempt(options, console));
  while (retry.limit > 0 && last.info && last.info->status == "failed" &&
         !last.outcome.was_asked_to_end) {
    const supervise::RetryDecision decision =
        retries.decide(last.info->failure, steps_of(*last.info));
    supervise::say(decision.line);
    using Kind = supervise::RetryDecision::Kind;
    if (decision.kind == Kind::kOtherNode) return ask_for_other_node(other, last);
    if (decision.kind == Kind::kEnd) break;
    // A signal ends us here as it would any program.
    ::poll(nullptr, 0, static_cast<int>(decision.delay_s * 1000));
    options.attempt += 1;
    if (!name.empty()) options.name = fmt::format("{}-attempt-{}", name, options.attempt);
    if (!job.empty()) options.collector.job = fmt::format("{}-attempt-{}", job, options.attempt);
    auto next = attempt(options, console);
    if (!next.ok()) {
      supervise::say(next.status().to_string());
      break;
    }
    last = std::move(next).value();
  }
  return last.outcome.exit_code;
}

std::vector<Option> retry_option_list() {
  return {{.name = "retries",
           .kind = OptionKind::kInteger,
           .value = "N",
           .help = "how often a job that failed is started once more, where its verdict says that "
                   "this can help; it finds PARAMEDIC_ATTEMPT in its environment",
           .fallback = "0",
           .max = 1000},
          {.name = "retry-on",
           .kind = OptionKind::kList,
           .value = "WHAT",
           .help = "which failures: transient = those that the verdict calls so, unknown = also "
                   "where it cannot tell, any, or categories of `paramedic diagnose`",
           .fallback = "transient"},
          {.name = "retry-delay",
           .kind = OptionKind::kSeconds,
           .value = "TIME",
           .help = "how long to wait before the first retry; doubled for each one more, up to 10 "
                   "minutes",
           .fallback = "10",
           .max = 86400},
          {.name = "other-node",
           .value = "ASK",
           .help = "how another node is asked for when this one is at fault: a number is the exit "
                   "code to end with, a URL gets a POST of JSON, anything else is a command that "
                   "finds the JSON on its standard input"}};
}

std::vector<Option> collector_option_list() {
  return {
      {.name = "collector",
       .value = "ADDRESS",
       .help = "where the ranks of all nodes are compared: grpc://HOST:PORT or "
               "grpc+tls://HOST:PORT of a `paramedic collector`, a folder that all nodes share, "
               "or s3://BUCKET/PATH; --name is then the same on all nodes"},
      {.name = "start-collector",
       .kind = OptionKind::kFlag,
       .value = "",
       .help = "the node with rank 0 starts the collector too, until the job has ended"},
      {.name = "collector-token-file",
       .value = "FILE",
       .help = "the secret of all nodes and the collector, if not in "
               "PARAMEDIC_COLLECTOR_TOKEN"},
      {.name = "collector-tls-roots",
       .value = "FILE",
       .help = "certificates (PEM) that the collector's is checked with, if not the system's"}};
}

}  // namespace

Command run_command() {
  Command command;
  command.name = "run";
  command.summary = "runs a training command unchanged and watches it";
  command.about =
      "Starts the command as it was typed, captures statistics inside the training process, judges "
      "them while the job runs, and says at the end what is wrong. The job's output, exit code and "
      "results are the same as without Paramedic; a job never fails because of it.\n\n"
      "An exception that would end the job pauses it where it stands. With --on-crash auto the "
      "policies (docs/recovery.md) repair what they can, and where none fits whoever sits at the "
      "terminal is asked; without a terminal the job then fails as it would have.\n\n"
      "The `--` may be left out when the command does not begin with a dash. The exit code is the "
      "job's own, 128+N after signal N, and 75 when a rule stopped the job.";
  command.options = job_option_list();
  for (Option& option : retry_option_list()) command.options.push_back(std::move(option));
  for (Option& option : collector_option_list()) command.options.push_back(std::move(option));
  command.takes_command = true;
  command.examples = {
      {"paramedic run --on-crash wait --wait-limit 12h -- python train.py",
       "overnight: a crash waits for you, with everything that it knows"},
      {"paramedic run -- python train.py --epochs 3", "what you typed before, with two words more"},
      {"paramedic run --name digits-3 -- torchrun --nproc-per-node 2 train.py",
       "a distributed job, under a name of your own"},
      {"paramedic run --retries 3 --other-node 85 -- torchrun train.py",
       "start again after what passes by itself; exit code 85 asks the scheduler for another node"},
      {"paramedic run --name big-7 --collector grpc://head:7071 -- torchrun --nnodes 8 train.py",
       "one of eight nodes: their ranks are compared with each other"},
      {"paramedic run --on nan_origin=stop -- python train.py",
       "do not burn hours on a run that is lost"},
      {"paramedic run --overhead-budget 5% --capture plan.txt -- python train.py",
       "look closer, and let it cost more"}};
  command.run = run;
  return command;
}

}  // namespace paramedic::cli
