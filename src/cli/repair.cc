#include <fmt/format.h>

#include <array>

#include "cli/command.h"
#include "cli/places.h"
#include "cli/runs.h"
#include "cli/text.h"
#include "recovery/desk.h"
#include "supervise/control_client.h"

namespace paramedic::cli {
namespace {

using record::ControlMessage;
using record::ControlType;

constexpr int kNotResumedExitCode = 1;

// A choice that is a flag, and the kind of repair it asks for.
constexpr std::array<std::pair<const char*, const char*>, 5> kFlags = {{{"retry", "retry"},
                                                                        {"skip", "skip"},
                                                                        {"rewind", "rewind"},
                                                                        {"rollback", "rollback"},
                                                                        {"abort", "abort"}}};

Result<recovery::Repair> chosen_repair(const Arguments& arguments) {
  recovery::Repair repair;
  int chosen = 0;
  for (const auto& [flag, kind] : kFlags) {
    if (!arguments.flag(flag)) continue;
    repair.kind = kind;
    chosen++;
  }
  const auto choose = [&](const char* option, const char* kind) {
    if (!arguments.option(option).given) return false;
    repair.kind = kind;
    chosen++;
    return true;
  };
  if (choose("apply", "edit")) {
    PARAMEDIC_ASSIGN(repair.patch, posix_file_system().read(arguments.text("apply")));
  }
  if (choose("exec", "action")) repair.code = arguments.text("exec");
  if (choose("return", "return")) repair.value = arguments.text("return");
  if (arguments.option("at").given) {
    PARAMEDIC_ASSIGN(repair.at, parse_place(arguments.text("at")));
  }
  if (chosen != 1) {
    return invalid_argument(chosen == 0 ? "repair: it is not said what to do"
                                        : "repair: only one repair can be done at a time",
                            "one of --retry, --apply PATCH, --exec CODE, --skip, --rewind, "
                            "--rollback, --return EXPR and --abort");
  }
  return repair;
}

// Sends the repair and waits for what comes of it: the answer as contract.md has it.
Result<Json> carry_out(const std::string& folder, const recovery::Repair& repair,
                       std::optional<int> rank) {
  auto client = supervise::ControlClient::connect(folder);
  if (!client.ok()) {
    return recovery::outcome_json(false, repair, nullptr, 0,
                                  "the run is not paused: no agent watches it any more");
  }
  ControlMessage message{ControlType::kRepair, repair.to_json()};
  message.fields["rank"] = rank ? Json(*rank) : Json(nullptr);
  message.fields["others"] = !rank;
  PARAMEDIC_TRY(client->send(message));
  auto answer = client->receive(-1);
  if (!answer.ok()) {
    return recovery::outcome_json(false, repair, nullptr, 0, answer.status().message());
  }
  return std::move(answer)->fields;
}

Result<int> run(const Arguments& arguments, Console& console) {
  PARAMEDIC_ASSIGN(const recovery::Repair repair, chosen_repair(arguments));
  std::optional<int> rank;
  if (arguments.option("rank").given) rank = static_cast<int>(arguments.number("rank"));
  PARAMEDIC_ASSIGN(const std::string folder, find_run(posix_file_system(), arguments.text("dir"),
                                                      arguments.positional("RUN")));
  PARAMEDIC_ASSIGN(const Json answer, carry_out(folder, repair, rank));
  const bool resumed = bool_or(answer, "resumed", false);
  const std::string reason = string_or(answer, "reason", "");
  if (arguments.flag("json")) {
    console.out << to_text(answer) << "\n";
  } else if (resumed) {
    console.out << fmt::format("rank {} goes on ({:.1f} ms)\n", integer_or(answer, "rank", 0),
                               number_or(answer, "took_ms", 0));
    if (!reason.empty()) console.err << "paramedic: " << clean(reason) << "\n";
  } else {
    console.err << "paramedic: " << clean(reason) << "\n";
  }
  const bool is_done = resumed || (repair.kind == "abort" && answer["rank"].is_number());
  return is_done ? 0 : kNotResumedExitCode;
}

std::vector<Option> option_list() {
  const auto flag = [](const char* name, const char* help) {
    return Option{.name = name, .kind = OptionKind::kFlag, .value = "", .help = help};
  };
  return {
      flag("retry", "run the failing statement again"),
      {.name = "apply",
       .value = "PATCH",
       .help = "a unified diff of the job's files; goes on at the edited statement"},
      {.name = "exec",
       .value = "CODE",
       .help = "run code that sees and sets the names of the crashed frame, then retry"},
      flag("skip", "go to the next iteration of the innermost loop around the crash"),
      flag("rewind", "go to the start of the iteration, with everything as it was there"),
      flag("rollback", "go back to the newest snapshot"),
      {.name = "return",
       .value = "EXPR",
       .help = "let the crashed function return the value of an expression"},
      flag("abort", "let the job end with its exception"),
      {.name = "at",
       .value = "FILE:LINE",
       .help = "with --retry, --apply or --exec: go on at this statement of the crashed function"},
      {.name = "rank",
       .kind = OptionKind::kInteger,
       .value = "N",
       .help = "the rank to repair; the one that has waited longest, and all others with the same "
               "fault, when left out",
       .max = 1 << 24},
      json_option(),
      dir_option(),
  };
}

}  // namespace

Command repair_command() {
  Command command;
  command.name = "repair";
  command.summary = "repairs a paused job, for scripts";
  command.about =
      "Does one thing about the crash for which a job is paused, and returns when the job has "
      "resumed or says why it has not; then it is paused as before. `paramedic attach` offers the "
      "same to a person, `paramedic run --on-crash wait` pauses jobs.\n\n"
      "The exit code is 0 when the job went on (or ended, with --abort), 1 when it did not, 2 for "
      "a wrong call.";
  command.options = option_list();
  command.positionals = {{"RUN", "a name in --dir or a path; the newest run when left out"}};
  command.examples = {
      {"paramedic repair digits-3 --retry", "the network is back: run the statement again"},
      {"paramedic repair digits-3 --apply fix.patch", "go on with a bug fixed, nothing lost"},
      {"paramedic repair --exec 'batch = batch.float()' --json", "for a script"}};
  command.run = run;
  return command;
}

}  // namespace paramedic::cli
