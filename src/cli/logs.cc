#include <fmt/format.h>
#include <re2/re2.h>

#include <ctime>
#include <deque>
#include <limits>
#include <memory>

#include "cli/command.h"
#include "cli/log_lines.h"
#include "cli/render_json.h"
#include "cli/runs.h"
#include "cli/text.h"

namespace paramedic::cli {
namespace {

using diagnose::Level;

// Of --json, which is one object and held in memory; text has no limit.
constexpr size_t kJsonLinesMax = 100'000;

const char* level_name(Level level) {
  switch (level) {
    case Level::kError:
      return "error";
    case Level::kWarning:
      return "warning";
    default:
      return "info";
  }
}

struct Filter {
  std::optional<int> rank;
  std::unique_ptr<RE2> pattern;
  Level level = Level::kNone;
  std::optional<int64_t> around_ns;
  size_t lines = 20;

  [[nodiscard]] bool passes(const LoggedLine& line) const {
    if (rank && line.rank != *rank) return false;
    if (line.level < level) return false;
    return pattern == nullptr || RE2::PartialMatch(line.text, *pattern);
  }
};

Result<Filter> filter_of(const Arguments& arguments, const store::StepTimes& steps) {
  Filter filter;
  if (arguments.option("rank").given) filter.rank = static_cast<int>(arguments.number("rank"));
  if (const std::string& grep = arguments.text("grep"); !grep.empty()) {
    filter.pattern = std::make_unique<RE2>(grep, RE2::Quiet);
    if (!filter.pattern->ok()) {
      return invalid_argument(fmt::format("--grep {}: {}", clean(grep), filter.pattern->error()),
                              "RE2 syntax: https://github.com/google/re2/wiki/Syntax");
    }
  }
  const std::string& level = arguments.text("level");
  if (level == "error") filter.level = Level::kError;
  if (level == "warning") filter.level = Level::kWarning;
  if (!level.empty() && filter.level == Level::kNone && level != "info") {
    return invalid_argument("--level " + clean(level) + " is none", "error, warning or info");
  }
  filter.lines = static_cast<size_t>(arguments.number("lines"));
  if (!arguments.option("around").given) return filter;
  const auto step = static_cast<int64_t>(arguments.number("around"));
  filter.around_ns = steps.end_of(step);
  if (!filter.around_ns) {
    return not_found(fmt::format("when step {} ended is not known", step),
                     "`paramedic show` says how far the run came");
  }
  return filter;
}

// Passes on what the filter lets through: all of it, or with a time the lines nearest to it.
Status select(const std::string& folder, int world_size, const store::StepTimes& steps,
              const Filter& filter, const std::function<bool(const LoggedLine&)>& take) {
  std::deque<LoggedLine> before;
  size_t after = 0;
  PARAMEDIC_TRY(read_log_lines(folder, world_size, steps, [&](const LoggedLine& line) {
    if (!filter.passes(line)) return true;
    if (!filter.around_ns) return take(line);
    if (line.time_ns <= *filter.around_ns) {
      before.push_back(line);
      if (before.size() > filter.lines) before.pop_front();
      return true;
    }
    for (; !before.empty(); before.pop_front()) {
      if (!take(before.front())) return false;
    }
    return take(line) && ++after < filter.lines;
  }));
  for (const LoggedLine& line : before) {
    if (!take(line)) break;
  }
  return {};
}

Json line_json(const LoggedLine& line, const std::string& host) {
  const auto or_null = [](bool known, auto value) { return known ? Json(value) : Json(nullptr); };
  return {{"time", or_null(line.time_ns != 0, static_cast<double>(line.time_ns) / 1e9)},
          {"rank", or_null(line.rank >= 0, line.rank)},
          {"host", host},
          {"step", or_null(line.step >= 0, line.step)},
          {"level", level_name(line.level)},
          {"file", line.file},
          {"line", line.number},
          {"text", line.text}};
}

std::string clock_text(int64_t time_ns) {
  if (time_ns == 0) return "            ";
  const auto seconds = static_cast<time_t>(time_ns / 1'000'000'000);
  tm local{};
  ::localtime_r(&seconds, &local);
  return fmt::format("{:02d}:{:02d}:{:02d}.{:03d}", local.tm_hour, local.tm_min, local.tm_sec,
                     time_ns / 1'000'000 % 1000);
}

std::string line_text(const LoggedLine& line, const Paint& paint) {
  const std::string rank = line.rank >= 0 ? fmt::format("rank {}", line.rank) : "";
  const std::string step = line.step >= 0 ? fmt::format("step {}", line.step) : "";
  const std::string text = clean(line.text);
  const Style style = line.level == Level::kError ? Style::kError : Style::kWarning;
  return fmt::format("{}  {}  {}  {}\n", paint(Style::kDim, clock_text(line.time_ns)), pad(rank, 7),
                     paint(Style::kDim, pad(step, 9)),
                     line.level <= Level::kInfo ? text : paint(style, text));
}

Result<int> logs(const Arguments& arguments, Console& console) {
  PARAMEDIC_ASSIGN(const auto reader, open_run(arguments, console));
  const store::RunInfo& info = reader->info();
  PARAMEDIC_ASSIGN(const store::StepTimes steps, store::StepTimes::read(*reader));
  PARAMEDIC_ASSIGN(const Filter filter, filter_of(arguments, steps));
  const bool as_json = arguments.flag("json");
  const Paint paint(console.color_out);
  Json lines = Json::array();
  bool cut = false;
  PARAMEDIC_TRY(select(info.dir, info.world_size, steps, filter, [&](const LoggedLine& line) {
    if (!as_json) {
      console.out << line_text(line, paint);
      return console.out.good();
    }
    cut = lines.size() >= kJsonLinesMax;
    if (!cut) lines.push_back(line_json(line, info.host));
    return !cut;
  }));
  if (as_json) {
    console.out << to_text({{"schema", kJsonSchema}, {"lines", std::move(lines)}, {"cut", cut}})
                << "\n";
  }
  return 0;
}

}  // namespace

Command logs_command() {
  Command command;
  command.name = "logs";
  command.summary = "what all ranks printed, in one searchable stream";
  command.about =
      "Prints the lines of a run in the order of time, each with its time, rank and step. The rank "
      "is told by the prefix of a line (`[rank3]:`, `[default3]:`, `3: ` of srun -l, …); in a job "
      "of several ranks a line without a prefix has none. Works while the run goes on.";
  command.options = {
      {.name = "rank", .kind = OptionKind::kInteger, .value = "N", .help = "only of this rank"},
      {.name = "grep", .value = "RE", .help = "only lines that match this regular expression"},
      {.name = "level", .value = "LEVEL", .help = "error, or warning and worse, or info"},
      {.name = "around",
       .kind = OptionKind::kInteger,
       .value = "STEP",
       .help = "only the lines before and after the end of this step"},
      {.name = "lines",
       .kind = OptionKind::kInteger,
       .value = "N",
       .help = "with --around, how many on each side",
       .fallback = "20",
       .min = 1},
      json_option(),
      dir_option()};
  command.positionals = {{"RUN", "a name in --dir or a path; the newest run when left out"}};
  command.examples = {{"paramedic logs digits-3 --rank 3 --level error", "what went wrong there"},
                      {"paramedic logs --around 812 --lines 5", "what was said around a step"}};
  command.run = logs;
  return command;
}

}  // namespace paramedic::cli
