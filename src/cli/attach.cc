#include "cli/command.h"
#include "cli/follow.h"
#include "cli/render_text.h"
#include "cli/repair_console.h"
#include "cli/runs.h"
#include "supervise/control_client.h"

namespace paramedic::cli {
namespace {

using record::ControlMessage;
using record::ControlType;

// An agent answers within two of its ticks; only the outcome of a repair takes as long as it takes.
constexpr int kAnswerMs = 10'000;

class AgentConnection : public PausedRun {
 public:
  explicit AgentConnection(supervise::ControlClient client) : client_(std::move(client)) {}

  Result<std::vector<recovery::Crash>> look() override {
    PARAMEDIC_TRY(client_.send({ControlType::kLook, Json::object()}));
    std::vector<recovery::Crash> crashes;
    while (true) {
      PARAMEDIC_ASSIGN(const ControlMessage answer, client_.receive(kAnswerMs));
      if (answer.type != ControlType::kCrash) return crashes;
      PARAMEDIC_ASSIGN(recovery::Crash crash, recovery::Crash::from_json(answer.fields));
      crashes.push_back(std::move(crash));
    }
  }

  Result<std::string> ask(int rank, int frame, const std::string& expression) override {
    ControlMessage question{ControlType::kLook};
    question.fields = {{"rank", rank}, {"frame", frame}, {"question", expression}};
    PARAMEDIC_TRY(client_.send(question));
    // The expression is the person's own; Ctrl-C leaves the console, not the job.
    PARAMEDIC_ASSIGN(const ControlMessage answer, client_.receive(-1));
    if (answer.type == ControlType::kView) return string_or(answer.fields, "text", "");
    return not_found(string_or(answer.fields, "reason", "the agent answered something else"));
  }

  Result<Json> repair(int rank, const recovery::Repair& repair) override {
    ControlMessage message{ControlType::kRepair, repair.to_json()};
    message.fields["rank"] = rank;
    message.fields["others"] = true;
    PARAMEDIC_TRY(client_.send(message));
    PARAMEDIC_ASSIGN(ControlMessage answer, client_.receive(-1));
    return std::move(answer.fields);
  }

 private:
  supervise::ControlClient client_;
};

Result<Report> read_report(const std::string& folder, Console& console) {
  PARAMEDIC_ASSIGN(const auto reader, open_run(folder, console));
  return build_report(*reader, double(real_clock().wall_ns()) / 1e9);
}

bool is_paused_or_over(const Report& report) {
  return is_over(report) || report.info.status == "paused";
}

// A live look until the run pauses, ends, or the person has seen enough.
Result<Followed> wait_for_pause(const std::string& folder, Console& console) {
  if (console.out_is_terminal) return follow_run(folder, console, is_paused_or_over);
  PARAMEDIC_ASSIGN(Report report, read_report(folder, console));
  return Followed{std::move(report), false};
}

Result<int> attach(const Arguments& arguments, Console& console) {
  PARAMEDIC_ASSIGN(const std::string folder, find_run(posix_file_system(), arguments.text("dir"),
                                                      arguments.positional("RUN")));
  PARAMEDIC_ASSIGN(const Followed last, wait_for_pause(folder, console));
  if (last.is_interrupted || last.report.info.status != "paused") {
    console.out << render_text(last.report, {console.width, console.color_out});
    if (is_over(last.report)) console.err << "paramedic: the run is over: nothing waits\n";
    return 0;
  }
  PARAMEDIC_ASSIGN(auto client, supervise::ControlClient::connect(folder));
  AgentConnection connection(std::move(client));
  TerminalInput input(arguments.option("in-place").given ? "abort" : "");
  return RepairConsole(connection, input, console, last.report.info.cwd).serve();
}

}  // namespace

Command attach_command() {
  Command command;
  command.name = "attach";
  command.summary = "the repair console of a job that has paused";
  command.about =
      "Shows where a paused job crashed, with its source, stack and what the names hold, and "
      "carries out repairs: the job goes on from there. `help` in the console lists them; leaving "
      "it leaves the job paused.\n\n"
      "Of a job that is not paused it is a live look, and becomes the console when the job pauses. "
      "Without a terminal the console reads its commands from standard input.";
  command.options = {{.name = "in-place",
                      .kind = OptionKind::kFlag,
                      .value = "",
                      .help = "Ctrl-C lets the job end with its exception: as `paramedic run` "
                              "opens the console on its own terminal"},
                     dir_option()};
  command.positionals = {{"RUN", "a name in --dir or a path; the newest run when left out"}};
  command.examples = {
      {"paramedic attach", "the newest run"},
      {"EDITOR='code --wait' paramedic attach digits-3", "`edit` opens the source in your editor"}};
  command.run = attach;
  return command;
}

}  // namespace paramedic::cli
