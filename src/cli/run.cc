#include <unistd.h>

#include <optional>

#include "cli/command.h"
#include "cli/job_options.h"
#include "cli/summary.h"
#include "supervise/job.h"

namespace paramedic::cli {
namespace {

Result<int> run(const Arguments& arguments, Console& console) {
  if (arguments.command().empty()) {
    return invalid_argument("run: there is no command to run", "paramedic run -- python train.py");
  }
  PARAMEDIC_ASSIGN(supervise::JobOptions options, job_options(arguments, console));
  options.has_terminal = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1;
  PARAMEDIC_ASSIGN(const supervise::JobOutcome outcome, supervise::run_job(options));
  std::optional<store::RunInfo> info;
  if (!outcome.run_dir.empty()) {
    const auto reader = store::RunReader::open(outcome.run_dir);
    if (reader.ok()) info = (*reader)->info();
  }
  console.err << render_summary(outcome, info, Paint(console.color_err)) << std::flush;
  return outcome.exit_code;
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
  command.takes_command = true;
  command.examples = {
      {"paramedic run --on-crash wait --wait-limit 12h -- python train.py",
       "overnight: a crash waits for you, with everything that it knows"},
      {"paramedic run -- python train.py --epochs 3", "what you typed before, with two words more"},
      {"paramedic run --name digits-3 -- torchrun --nproc-per-node 2 train.py",
       "a distributed job, under a name of your own"},
      {"paramedic run --on nan_origin=stop -- python train.py",
       "do not burn hours on a run that is lost"},
      {"paramedic run --overhead-budget 5% --capture plan.txt -- python train.py",
       "look closer, and let it cost more"}};
  command.run = run;
  return command;
}

}  // namespace paramedic::cli
