#include "diagnose/diagnose.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>

#include "cli/command.h"
#include "cli/render_html.h"
#include "cli/render_json.h"
#include "cli/render_verdict.h"
#include "cli/runs.h"
#include "diagnose/growing.h"
#include "supervise/fd.h"

namespace paramedic::cli {
namespace {

// Of contract.md: 0 where the cause is found (a healthy job has none to find), 3 where not.
constexpr int kUnknownCode = 3;

// Ctrl-C ends the waiting, not us: what is there is judged.
Result<diagnose::Diagnosis> follow(const std::vector<std::string>& paths) {
  if (paths.size() != 1) {
    return invalid_argument("diagnose: --follow reads one growing log",
                            "the others can be read when the job has ended");
  }
  sigset_t interrupt;
  ::sigemptyset(&interrupt);
  ::sigaddset(&interrupt, SIGINT);
  ::sigaddset(&interrupt, SIGTERM);
  // What waits in a pipe sees no descriptor of ours: there Ctrl-C ends the writer.
  if (paths.front() == "-") return diagnose::diagnose_growing("-", {});
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &interrupt, &before);
  const supervise::Fd signals(::signalfd(-1, &interrupt, SFD_CLOEXEC));
  diagnose::GrowingOptions options;
  options.interrupt_fd = signals.get();
  auto diagnosis = diagnose::diagnose_growing(paths.front(), options);
  signalfd_siginfo taken{};
  sigset_t pending;
  ::sigpending(&pending);
  const bool is_pending =
      ::sigismember(&pending, SIGINT) == 1 || ::sigismember(&pending, SIGTERM) == 1;
  if (is_pending) (void)!::read(signals.get(), &taken, sizeof taken);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  return diagnosis;
}

Status show_verdict(const diagnose::Diagnosis& diagnosis, const Arguments& arguments,
                    Console& console) {
  const std::string& html = arguments.text("html");
  if (!html.empty()) {
    PARAMEDIC_TRY(write_html(html, verdict_html(diagnosis), arguments.flag("force")));
    console.err << "paramedic: wrote " << html << "\n";
  }
  if (arguments.flag("json")) {
    Json other = Json::array();
    for (const diagnose::Verdict& verdict : diagnosis.other) other.push_back(to_json(verdict));
    console.out << to_text({{"schema", kJsonSchema},
                            {"verdict", to_json(diagnosis.verdict)},
                            {"other", std::move(other)}})
                << "\n";
  } else if (html.empty()) {
    const Paint paint(console.color_out);
    console.out << verdict_text(diagnosis, paint, console.width);
    if (arguments.flag("explain")) {
      console.out << explanation_text(diagnosis, paint, console.width);
    }
  }
  return {};
}

Result<int> run_diagnose(const Arguments& arguments, Console& console) {
  std::vector<std::string> paths = arguments.positionals("PATH");
  for (std::string& path : paths) {
    path = run_or_path(posix_file_system(), arguments.text("dir"), path);
  }
  PARAMEDIC_ASSIGN(const diagnose::Diagnosis diagnosis,
                   arguments.flag("follow") ? follow(paths) : diagnose::diagnose_paths(paths));
  PARAMEDIC_TRY(show_verdict(diagnosis, arguments, console));
  return diagnosis.verdict.category == diagnose::Category::kUnknown ? kUnknownCode : 0;
}

}  // namespace

Command diagnose_command() {
  Command command;
  command.name = "diagnose";
  command.summary = "why a job failed, from its logs";
  command.about =
      "Reads the logs of any training job (files, folders of per-rank logs, globs, - for stdin; "
      "plain, gzip, zstd or xz; a run of Paramedic's by name or folder too) and says what made it "
      "fail, with the lines that "
      "prove it, the rank that failed first, whether running it again can help, and what to do. "
      "Exit code 0 when the cause is found or there was no failure, 3 when the logs do not tell.";
  command.options = {
      json_option(),
      dir_option(),
      {.name = "explain",
       .kind = OptionKind::kFlag,
       .value = "",
       .help = "also list every event of the log with the part that it played"},
      {.name = "html", .value = "FILE", .help = "write all of it as one offline HTML file instead"},
      {.name = "force",
       .kind = OptionKind::kFlag,
       .value = "",
       .help = "let --html overwrite FILE"},
      {.name = "follow",
       .kind = OptionKind::kFlag,
       .value = "",
       .help = "read a log that still grows, until its writer is done or a cause "
               "is followed by nothing; Ctrl-C judges what there is"}};
  command.positionals = {
      {.name = "PATH",
       .help = "log files, folders of per-rank logs, globs, a run or its name, or -",
       .required = true,
       .many = true}};
  command.examples = {{"paramedic diagnose job.log", "one log"},
                      {"paramedic diagnose logs/rank-*.err", "one log for each rank"},
                      {"paramedic diagnose --follow job.log", "a job that is going on"},
                      {"paramedic diagnose r7", "the run of that name"},
                      {"kubectl logs job/train | paramedic diagnose -", "from a pipe"}};
  command.run = run_diagnose;
  return command;
}

}  // namespace paramedic::cli
