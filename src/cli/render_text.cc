#include "cli/render_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/path.h"
#include "cli/failure_view.h"
#include "cli/plot.h"
#include "cli/render_ranks.h"

namespace paramedic::cli {
namespace {

constexpr size_t kHeatRowsMax = 24;
constexpr size_t kLossPlotsMax = 3;
constexpr size_t kTensorsShown = 4;
constexpr size_t kRepairsShown = 12;  // the newest
constexpr int kFieldWidth = 8;        // of "where", "fix", "also"

Style style_of(rules::Severity severity) {
  switch (severity) {
    case rules::Severity::kError:
      return Style::kError;
    case rules::Severity::kWarning:
      return Style::kWarning;
    case rules::Severity::kInfo:
      break;
  }
  return Style::kInfo;
}

std::string joined(const std::vector<std::string>& parts, const std::string& separator) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : separator) + part;
  return text;
}

class TextReport {
 public:
  TextReport(const Report& report, const TextOptions& options)
      : report_(report), width_(options.width), paint_(options.color) {}

  std::string render() {
    header();
    pause();
    problems();
    repairs();
    ranks();
    curves();
    heat();
    times();
    lists();
    return std::move(text_);
  }

 private:
  void line(const std::string& text = {}) { text_ += text + "\n"; }

  // Parts joined by " · ", continued on the next line where they do not fit.
  void parts_line(const std::vector<std::string>& parts) {
    std::string current;
    for (const std::string& part : parts) {
      if (!current.empty() && display_width(current) + 3 + display_width(part) > width_) {
        line(paint_(Style::kDim, current));
        current.clear();
      }
      current += (current.empty() ? "" : " · ") + part;
    }
    if (!current.empty()) line(paint_(Style::kDim, current));
  }

  // A title in bold with remarks at the right edge; the last ones are left out where the line is
  // too short for all.
  void title(const std::string& name, std::vector<std::string> remarks) {
    const std::string shown_name = cut_middle(name, width_);
    std::string shown = joined(remarks, "  ");
    while (!remarks.empty() && display_width(shown_name) + 2 + display_width(shown) > width_) {
      remarks.pop_back();
      shown = joined(remarks, "  ");
    }
    line();
    const int gap = width_ - display_width(shown_name) - display_width(shown);
    line(paint_(Style::kBold, shown_name) +
         (shown.empty() ? "" : std::string(gap, ' ') + paint_(Style::kDim, shown)));
  }

  void header() {
    std::string verdict = "healthy";
    Style style = Style::kGood;
    const size_t errors = report_.count(rules::Severity::kError);
    const size_t warnings = report_.count(rules::Severity::kWarning);
    if (errors + warnings > 0) {
      verdict = counted(errors + warnings, "problem");
      style = errors > 0 ? Style::kError : Style::kWarning;
    } else if (report_.info.status == "paused") {
      verdict = "paused";
      style = Style::kWarning;
    } else if (std::string_view(report_.health()) == "failed") {
      verdict = "failed";
      style = Style::kError;
    } else if (report_.info.framework.empty()) {
      verdict = "nothing seen";
      style = Style::kDim;
    }
    const std::string name = cut_middle(clean(report_.name), width_ - display_width(verdict) - 2);
    line(paint_(Style::kBold, name) +
         std::string(width_ - display_width(name) - display_width(verdict), ' ') +
         paint_(style, verdict));
    for (const std::string& command : wrap(command_text(report_.info.command), width_)) {
      line(command);
    }
    parts_line(status_parts(report_));
    parts_line(model_parts(report_));
  }

  void field(const std::string& name, const std::string& text) {
    bool first = true;
    for (const std::string& part : wrap(clean(text), width_ - 3 - kFieldWidth)) {
      line("   " + paint_(Style::kDim, pad(first ? name : "", kFieldWidth)) + part);
      first = false;
    }
  }

  void problem(const Problem& problem) {
    const rules::Finding& finding = problem.finding;
    line();
    std::string place = finding.tensor ? clean(*finding.tensor) : "";
    const std::string steps = steps_text(finding);
    const std::string severity = rules::severity_name(finding.severity);
    const std::string id = clean(finding.id);
    const int room =
        width_ - display_width(severity) - display_width(id) - display_width(steps) - 6;
    place = cut_middle(place, std::max(room, 0));
    const std::string left = paint_(style_of(finding.severity), severity) + "  " +
                             paint_(Style::kBold, id) + (place.empty() ? "" : "  " + place);
    const int used = display_width(severity) + 2 + display_width(id) +
                     (place.empty() ? 0 : 2 + display_width(place));
    line(steps.empty()
             ? left
             : left + std::string(std::max(width_ - used - display_width(steps), 2), ' ') +
                   paint_(Style::kDim, steps));
    for (const std::string& part : wrap(clean(finding.message), width_ - 3)) line("   " + part);
    source(problem);
    const char* name = "seen";
    for (const std::string& evidence : finding.evidence) {
      field(name, evidence);
      name = "";
    }
    if (finding.tensors.size() > 1) also(finding);
    if (!finding.fix.empty()) field("fix", finding.fix);
  }

  void source(const Problem& problem) {
    const std::string where = where_text(problem.finding);
    if (where.empty()) return;
    field("where", where + (problem.quote.changed ? " (the file was changed since)" : ""));
    std::string quoted = clean(problem.quote.line);
    quoted.erase(0, quoted.find_first_not_of(' '));
    if (quoted.empty()) return;
    const std::string number = std::to_string(problem.finding.where->line);
    line("   " + std::string(kFieldWidth, ' ') + paint_(Style::kDim, number + " │ ") +
         paint_(Style::kAccent, cut(quoted, width_ - 6 - kFieldWidth - display_width(number))));
  }

  void also(const rules::Finding& finding) {
    std::vector<std::string> others;
    size_t more = 0;
    for (const std::string& tensor : finding.tensors) {
      if (finding.tensor == tensor) continue;
      if (others.size() < kTensorsShown) {
        others.push_back(tensor);
      } else {
        more++;
      }
    }
    if (others.empty()) return;
    field("also", joined(others, ", ") + (more > 0 ? fmt::format(" and {} more", more) : ""));
  }

  // The crash for which the job waits, or of which it died.
  void pause() {
    const Json& failure = report_.info.failure;
    if (!failure.is_object()) return;
    const bool is_paused = report_.info.status == "paused";
    line();
    line(paint_(is_paused ? Style::kWarning : Style::kError, is_paused ? "paused" : "failed") +
         "  " + paint_(Style::kBold, cut(clean(exception_of(failure)), width_ - 8)));
    for (const std::string& said : message_lines(failure_message(failure), width_ - 3)) {
      line("   " + said);
    }
    if (report_.failure_place) {
      Problem place;
      place.finding.where = report_.failure_place;
      place.quote = report_.failure_quote;
      source(place);
    }
    if (is_paused) return field("repair", "paramedic attach " + report_.name);
    const std::string cause = cause_of(failure);
    if (!cause.empty()) field("cause", cause);
    const std::string stage = string_or(failure, "stage", "unknown");
    if (stage != "unknown") field("stage", stage);
    if (const std::string retry = retry_of(failure); !retry.empty()) field("retry", retry);
    if (const std::string fix = string_or(failure, "fix", ""); !fix.empty()) field("fix", fix);
    const std::string collect = string_or(failure, "collect_next", "");
    if (!collect.empty()) field("collect", collect);
  }

  void repairs() {
    if (report_.repairs.empty()) return;
    title("repairs", {counted(report_.repairs.size(), "repair")});
    const size_t shown = std::min(report_.repairs.size(), kRepairsShown);
    for (size_t i = report_.repairs.size() - shown; i < report_.repairs.size(); i++) {
      line("  " + cut(repair_text(report_.repairs[i]), width_ - 2));
    }
  }

  void ranks() {
    if (!report_.ranks_view) return;
    title("ranks", {"rank by time"});
    for (const std::string& row : ranks_lines(*report_.ranks_view, width_, paint_)) line(row);
  }

  void problems() {
    for (const Problem& each : report_.problems) problem(each);
  }

  void curve(const std::string& name, const Series& series, int height) {
    std::vector<std::string> remarks = {"last " + short_number(series.last)};
    if (series.first_non_finite >= 0) {
      remarks.push_back(fmt::format("not finite from step {}", series.first_non_finite));
    }
    if (series.min <= series.max) {
      remarks.push_back("min " + short_number(series.min));
      remarks.push_back("max " + short_number(series.max));
      if (scale_of({&series}).log) remarks.emplace_back("log scale");
    }
    title(name, std::move(remarks));
    for (const std::string& row : plot_lines(series, report_.steps(), {width_, height}, paint_)) {
      line(row);
    }
  }

  void curves() {
    size_t shown = 0;
    for (const Series& loss : report_.losses) {
      if (shown++ == kLossPlotsMax) break;
      const std::string mode = loss.mode == "train" ? "" : " (" + loss.mode + ")";
      curve("loss " + clean(loss.name) + mode, loss, 6);
    }
    if (report_.losses.size() > kLossPlotsMax) {
      line(paint_(Style::kDim, counted(report_.losses.size() - kLossPlotsMax, "more loss") +
                                   ": paramedic show --html"));
    }
    if (report_.norm.count > 0) {
      curve("gradient norm", report_.norm, 5);
    } else if (report_.norm_before_clip.count > 0) {
      curve("gradient norm before clipping", report_.norm_before_clip, 5);
    }
    if (report_.rates.empty()) return;
    title("learning rate", {});
    for (const Series& rate : report_.rates) line("  " + rate_text(rate));
  }

  // "SGD/0  0.1 → 0.01", and the extremes when they lie in between.
  [[nodiscard]] std::string rate_text(const Series& rate) const {
    std::string text = cut_middle(clean(rate.name), width_ / 3) + "  " + short_number(rate.first);
    if (rate.min < rate.max) text += " → " + short_number(rate.last);
    const bool extremes =
        rate.min < std::min(rate.first, rate.last) || rate.max > std::max(rate.first, rate.last);
    if (extremes) {
      text += fmt::format("  min {}  max {}", short_number(rate.min), short_number(rate.max));
    }
    return cut(text, width_ - 2);
  }

  void heat() {
    if (report_.layers.empty()) return;
    title("gradient by layer", {"root mean square", "layers in forward order"});
    const std::vector<Layer> layers = folded_layers(report_.layers, kHeatRowsMax);
    for (const std::string& row : heat_lines(layers, report_.steps(), width_, paint_)) line(row);
  }

  void times() {
    double total = 0;
    for (const Phase& phase : report_.phases) total += phase.total_ms;
    if (total <= 0) return;
    const double mean =
        report_.steps_timed > 0 ? report_.step_ms_total / double(report_.steps_timed) / 1000 : 0;
    title("time", mean > 0 ? std::vector<std::string>{duration(mean) + " a step"}
                           : std::vector<std::string>{});
    const int bar_width = std::max(width_ - 30, 8);
    for (const Phase& phase : report_.phases) {
      const double share = phase.total_ms / total;
      // Eighths of a character, so that small shares still show.
      const int eighths = static_cast<int>(std::lround(share * bar_width * 8));
      std::string bar;
      for (int i = 0; i < eighths / 8; i++) bar += "█";
      constexpr const char* kPartial[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
      bar += kPartial[eighths % 8];
      line(fmt::format("  {} {:>5.1f} % {}", pad(phase.name, 11), share * 100,
                       paint_(Style::kAccent, bar)));
    }
  }

  void lists() {
    if (!report_.info.not_captured.empty()) {
      title("not captured", {});
      for (const auto& [what, why] : report_.info.not_captured) {
        bullet(clean(what) + ": " + clean(why));
      }
    }
    if (report_.damage.empty()) return;
    title("damaged, skipped", {});
    for (const store::Damage& damage : report_.damage) {
      bullet(
          fmt::format("{} at byte {}: {}", clean(damage.file), damage.offset, clean(damage.what)));
    }
  }

  void bullet(const std::string& text) {
    bool first = true;
    for (const std::string& part : wrap(text, width_ - 4)) {
      line((first ? "  · " : "    ") + part);
      first = false;
    }
  }

  const Report& report_;
  int width_;
  Paint paint_;
  std::string text_;
};

}  // namespace

std::string render_text(const Report& report, const TextOptions& options) {
  return TextReport(report, options).render();
}

std::string problem_line(const rules::Finding& finding, const Paint& paint) {
  std::string line = paint(style_of(finding.severity), rules::severity_name(finding.severity)) +
                     "  " + clean(finding.id);
  const std::string tensor = finding.tensor ? clean(*finding.tensor) : "";
  for (const std::string& part : {tensor, steps_text(finding), where_text(finding)}) {
    if (!part.empty()) line += "  " + part;
  }
  return line;
}

std::string where_text(const rules::Finding& finding) {
  if (!finding.where || finding.where->file.empty()) return "";
  std::string text = clean(finding.where->file);
  if (finding.where->line > 0) text += fmt::format(":{}", finding.where->line);
  if (!finding.where->function.empty()) text += " in " + clean(finding.where->function);
  return text;
}

std::string steps_text(const rules::Finding& finding) {
  if (!finding.step || *finding.step < 0) return "";
  if (!finding.last_step || *finding.last_step <= *finding.step) {
    return fmt::format("step {}", *finding.step);
  }
  return fmt::format("steps {}–{}", *finding.step, *finding.last_step);
}

std::string repair_text(const store::RepairRow& row) {
  std::string text = row.step < 0 ? "" : fmt::format("step {}  ", row.step);
  text += fmt::format("rank {}  {} by {}  ", row.rank, clean(row.kind), clean(row.by));
  if (!row.file.empty()) {
    text += fmt::format("{}:{} ", clean(base_name(row.file)), row.line);
  }
  text += fmt::format("{}  {:.1f} ms", clean(row.exception), row.took_ms);
  if (!row.patch.empty()) text += "  " + clean(row.patch);
  return text;
}

std::vector<std::string> status_parts(const Report& report) {
  const store::RunInfo& info = report.info;
  std::vector<std::string> parts = {clean(info.status)};
  if (info.signal) parts.push_back(fmt::format("signal {}", *info.signal));
  if (info.exit_code) parts.push_back(fmt::format("exit {}", *info.exit_code));
  parts.push_back(duration(report.seconds()));
  parts.push_back(counted(static_cast<uint64_t>(std::max<int64_t>(info.steps, 0)), "step"));
  if (info.world_size > 1) parts.push_back(counted(info.world_size, "rank"));
  parts.push_back(info.framework.empty() ? "no framework seen" : clean(info.framework));
  if (info.overhead_percent)
    parts.push_back(fmt::format("overhead {:.2f} %", *info.overhead_percent));
  parts.push_back(counted(info.dropped_records, "record") + " dropped");
  return parts;
}

std::vector<std::string> model_parts(const Report& report) {
  std::vector<std::string> parts;
  if (!report.layers.empty()) {
    parts.push_back(counted(report.layers.size(), "layer") + " with gradients");
    parts.push_back(counted(report.parameters(), "parameter"));
  }
  for (const std::string& optimizer : report.optimizers) parts.push_back(clean(optimizer));
  for (const std::string& loss : report.loss_kinds) parts.push_back(clean(loss));
  if (report.batch_size > 0) {
    parts.push_back(fmt::format("batch {}", report.batch_size));
  }
  return parts;
}

std::string command_text(const std::vector<std::string>& command) {
  std::string text;
  for (const std::string& word : command) {
    if (!text.empty()) text += ' ';
    const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
      return std::isalnum(c) != 0 ||
             std::string_view("-_./=:,+@%").find(static_cast<char>(c)) != std::string_view::npos;
    });
    if (plain) {
      text += word;
      continue;
    }
    text += '\'';
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += '\'';
  }
  return clean(text);
}

}  // namespace paramedic::cli
