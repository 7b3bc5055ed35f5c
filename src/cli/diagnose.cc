#include "diagnose/diagnose.h"

#include "cli/command.h"
#include "cli/render_json.h"
#include "cli/render_verdict.h"

namespace paramedic::cli {
namespace {

// Of contract.md: 0 where the cause is found (a healthy job has none to find), 3 where not.
constexpr int kUnknownCode = 3;

Result<int> run_diagnose(const Arguments& arguments, Console& console) {
  PARAMEDIC_ASSIGN(const diagnose::Diagnosis diagnosis,
                   diagnose::diagnose_paths(arguments.positionals("PATH")));
  if (arguments.flag("json")) {
    Json other = Json::array();
    for (const diagnose::Verdict& verdict : diagnosis.other) other.push_back(to_json(verdict));
    console.out << to_text({{"schema", kJsonSchema},
                            {"verdict", to_json(diagnosis.verdict)},
                            {"other", std::move(other)}})
                << "\n";
  } else {
    const Paint paint(console.color_out);
    console.out << verdict_text(diagnosis, paint, console.width);
    if (arguments.flag("explain")) {
      console.out << explanation_text(diagnosis, paint, console.width);
    }
  }
  return diagnosis.verdict.category == diagnose::Category::kUnknown ? kUnknownCode : 0;
}

}  // namespace

Command diagnose_command() {
  Command command;
  command.name = "diagnose";
  command.summary = "why a job failed, from its logs";
  command.about =
      "Reads the logs of any training job (files, folders, globs, - for stdin; plain, gzip, zstd "
      "or xz; a run folder too) and says what made it fail, with the lines that prove it, the "
      "rank that failed first, whether running it again can help, and what to do. Exit code 0 "
      "when the cause is found or there was no failure, 3 when the logs do not tell.";
  command.options = {json_option(),
                     {.name = "explain",
                      .kind = OptionKind::kFlag,
                      .value = "",
                      .help = "also list every event of the log with the part that it played"}};
  command.positionals = {{.name = "PATH",
                          .help = "log files, folders of per-rank logs, globs, a run, or -",
                          .required = true,
                          .many = true}};
  command.examples = {{"paramedic diagnose job.log", "one log"},
                      {"paramedic diagnose logs/rank-*.err", "one log for each rank"},
                      {"kubectl logs job/train | paramedic diagnose -", "from a pipe"}};
  command.run = run_diagnose;
  return command;
}

}  // namespace paramedic::cli
