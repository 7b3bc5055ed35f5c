#include "cli/job_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/capture.h"
#include "cli/program.h"
#include "cli/text.h"
#include "cluster/cluster.h"
#include "record/format.h"
#include "supervise/run_folder.h"

namespace paramedic::cli {
namespace {

constexpr int kRestarts = 3;  // contract.md: under --on-crash auto

Status check_rule(const std::string& id) {
  std::vector<std::string> known;
  for (const rules::RuleInfo& rule : cluster::all_rules()) known.emplace_back(rule.id);
  if (std::find(known.begin(), known.end(), id) != known.end()) return {};
  const std::string meant = closest(id, known);
  return invalid_argument(fmt::format("--on: there is no rule '{}'", clean(id)),
                          meant.empty() ? "`paramedic rules list` lists the rules"
                                        : fmt::format("did you mean {}?", meant));
}

// RULE=ACTION.
Status take_action(const std::string& text, supervise::JobOptions& job) {
  const size_t equals = std::min(text.find('='), text.size());
  const std::string rule = text.substr(0, equals);
  PARAMEDIC_TRY(check_rule(rule));
  const std::string action = equals < text.size() ? text.substr(equals + 1) : "";
  if (action == "stop") {
    job.stop_on.push_back(rule);
    return {};
  }
  if (action != "rollback") {
    return invalid_argument(fmt::format("--on: '{}' names no action", clean(text)),
                            "the actions are stop and rollback, as in nan_origin=rollback");
  }
  if (rule != "nan_origin") {
    return invalid_argument(fmt::format("--on: {} cannot roll back", rule),
                            "only nan_origin is known before it has changed the weights");
  }
  if (job.on_crash == supervise::OnCrash::kFail) {
    return invalid_argument("--on: rollback needs recovery, which is off with --on-crash fail");
  }
  job.roll_back_on.push_back(rule);
  return {};
}

Result<supervise::OnCrash> on_crash(const std::string& text) {
  for (const auto mode :
       {supervise::OnCrash::kAuto, supervise::OnCrash::kWait, supervise::OnCrash::kFail}) {
    if (text == supervise::on_crash_name(mode)) return mode;
  }
  return invalid_argument(fmt::format("--on-crash: '{}' is no mode", clean(text)),
                          "the modes are auto, wait and fail");
}

// A name becomes a folder in --dir, so it must not lead out of it.
Status check_name(const std::string& name) {
  if (name.find('/') == std::string::npos && !name.starts_with('.')) return {};
  return invalid_argument(fmt::format("--name: '{}' cannot be the name of a run", clean(name)),
                          "without '/' and not beginning with '.'; --dir names the folder");
}

}  // namespace

std::vector<Option> job_option_list() {
  return {
      {.name = "name",
       .value = "NAME",
       .help = "name of the run and of its folder in --dir; made from the time when left out"},
      dir_option(),
      {.name = "overhead-budget",
       .kind = OptionKind::kShare,
       .value = "SHARE",
       .help = "how much of a step capturing may cost; it captures less often when it would cost "
               "more; 0 = no limit",
       .fallback = "1%",
       .max = 1},
      {.name = "capture",
       .value = "PLAN",
       .help = "what is captured and how often: a file, or its lines "
               "(docs/formats/capture-plan.md); in paramedic.toml also as tables [capture.NAME]"},
      {.name = "on",
       .kind = OptionKind::kList,
       .value = "RULE=ACTION",
       .help = "what follows when a rule finds something: stop = the job ends (exit code 75); "
               "rollback, for nan_origin = the weights from before, without that data"},
      {.name = "on-crash",
       .value = "MODE",
       .help = "what happens to an exception that would end the job: auto = policies repair what "
               "they can, wait = the job pauses until `paramedic attach` or `repair`, fail = "
               "nothing",
       .fallback = "auto"},
      {.name = "wait-limit",
       .kind = OptionKind::kSeconds,
       .value = "TIME",
       .help = "how long a paused job waits before it fails as it would have",
       .fallback = "1h",
       .min = 1,
       .max = 30 * 86400},
      {.name = "notify",
       .value = "TARGET",
       .help = "who is told when the job pauses: a URL gets a POST of JSON, anything else is a "
               "command that finds the JSON on its standard input"},
      {.name = "restarts",
       .kind = OptionKind::kInteger,
       .value = "N",
       .help = "how often a job that dies of a signal (not SIGTERM or SIGINT) goes on from its "
               "newest snapshot in memory; 3 with --on-crash auto, else 0",
       .max = 1000},
      {.name = "snapshot-budget",
       .kind = OptionKind::kShare,
       .value = "SHARE",
       .help = "how much of the time snapshots may take",
       .fallback = "0.3%",
       .max = 1},
      {.name = "also",
       .kind = OptionKind::kList,
       .value = "PACKAGES",
       .help = "packages outside the job's own files whose crashes are repaired too, such as "
               "transformers.trainer"},
      {.name = "max-disk",
       .kind = OptionKind::kBytes,
       .value = "SIZE",
       .help = "how much the run folder may take, such as 2GB; raw tensors are thinned first",
       .min = 1 << 20},
      {.name = "ring-size",
       .kind = OptionKind::kBytes,
       .value = "SIZE",
       .help = "shared memory between each process of the job and the agent",
       .fallback = "8MiB",
       .min = record::kRingBytesMin,
       .max = record::kRingBytesMax},
  };
}

Result<supervise::JobOptions> job_options(const Arguments& arguments, const Console& console) {
  supervise::JobOptions job;
  job.command = arguments.command();
  job.runs_dir = arguments.text("dir");
  job.name = arguments.text("name");
  PARAMEDIC_TRY(check_name(job.name));
  job.overhead_budget = arguments.number("overhead-budget");
  PARAMEDIC_ASSIGN(job.plan, capture_plan(arguments, posix_file_system()));
  job.ring_bytes = static_cast<uint32_t>(arguments.number("ring-size"));
  if (arguments.option("max-disk").given) {
    job.disk_bytes_max = static_cast<uint64_t>(arguments.number("max-disk"));
  }
  PARAMEDIC_ASSIGN(job.on_crash, on_crash(arguments.text("on-crash")));
  const bool is_auto = job.on_crash == supervise::OnCrash::kAuto;
  const bool says = arguments.option("restarts").given;
  job.restarts = says ? static_cast<int>(arguments.number("restarts")) : is_auto ? kRestarts : 0;
  job.snapshot_budget = arguments.number("snapshot-budget");
  job.wait_limit_s = static_cast<int>(arguments.number("wait-limit"));
  job.notify = arguments.text("notify");
  job.also = arguments.option("also").list;
  for (const std::string& action : arguments.option("on").list) {
    PARAMEDIC_TRY(take_action(action, job));
  }
  PARAMEDIC_ASSIGN(const Home home, find_home(posix_file_system(), console.environment));
  job.python_dir = home.python_dir;
  job.probe_path = home.probe_path;
  job.color = console.color_err;
  return job;
}

}  // namespace paramedic::cli
