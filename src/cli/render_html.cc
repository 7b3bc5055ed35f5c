#include "cli/render_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/failure_view.h"
#include "cli/plot.h"
#include "cli/render_ranks.h"
#include "cli/render_text.h"
#include "cli/text.h"

namespace paramedic::cli {
namespace {

constexpr int kWidth = 960;  // of the drawings, in their own units
constexpr int kLeft = 64;
constexpr int kRight = kWidth - 8;
constexpr int kPlotHeight = 150;
constexpr int kPlotTop = 8;
constexpr int kPlotBottom = kPlotHeight - 22;
constexpr int kPlotColumns = 440;
constexpr int kHeatLeft = 220;
constexpr int kHeatColumns = 180;
constexpr int kHeatRow = 14;
constexpr size_t kHeatRowsMax = 200;
constexpr int kHeatColors = 11;
constexpr int kMessageColumnsMax = 1000;  // the browser wraps

std::string shown_value(const Column& column) {
  if (!column.has_value) return column.non_finite ? "NaN" : "";
  std::string text = short_number(column.middle);
  if (column.max > column.min) {
    text = short_number(column.min) + "…" + short_number(column.max);
  }
  return column.non_finite ? text + ",NaN" : text;
}

// Values to label on the axis: decades of a logarithmic one, else five even steps.
std::vector<double> ticks_of(const Scale& scale) {
  std::vector<double> ticks;
  if (scale.log) {
    const int low = static_cast<int>(std::ceil(std::log10(scale.low)));
    const int high = static_cast<int>(std::floor(std::log10(scale.high)));
    const int stride = std::max(1, (high - low + 4) / 5);
    for (int decade = low; decade <= high; decade += stride) {
      ticks.push_back(std::pow(10.0, decade));
    }
  }
  if (ticks.size() >= 2) return ticks;
  ticks.clear();
  for (int i = 0; i <= 4; i++) ticks.push_back(scale.value_at(i / 4.0));
  return ticks;
}

double x_of(double column, int columns, int left) {
  return left + (column + 0.5) / columns * (kRight - left);
}

std::string step_axis(const StepRange& axis, int left, int y) {
  std::string svg;
  constexpr int kLabels = 5;
  for (int i = 0; i < kLabels; i++) {
    const double share = double(i) / (kLabels - 1);
    const double step = double(axis.first) + share * double(axis.last - axis.first);
    const char* anchor = i == 0 ? "start" : i == kLabels - 1 ? "end" : "middle";
    svg += fmt::format(R"(<text x="{:.0f}" y="{}" text-anchor="{}">{}{:.0f}</text>)",
                       left + share * (kRight - left), y, anchor, i == 0 ? "step " : "", step);
    if (axis.first == axis.last) break;
  }
  return svg;
}

// The curve between its gaps: a line through the means, in a band from minimum to maximum.
std::string curve_paths(const std::vector<Column>& columns, const Scale& scale) {
  const auto y_of = [&](double value) {
    return kPlotBottom - scale.position(value) * (kPlotBottom - kPlotTop);
  };
  std::string svg;
  std::string line;
  std::string upper;
  std::string lower;
  const auto finish = [&] {
    if (line.empty()) return;
    svg += fmt::format(R"(<polygon class="band" points="{}{}" />)", upper, lower);
    svg += fmt::format(R"(<polyline class="line" points="{}" />)", line);
    line.clear();
    upper.clear();
    lower.clear();
  };
  for (size_t i = 0; i < columns.size(); i++) {
    const Column& column = columns[i];
    const double x = x_of(double(i), kPlotColumns, kLeft);
    if (column.has_value) {
      line += fmt::format("{:.1f},{:.1f} ", x, y_of(column.middle));
      upper += fmt::format("{:.1f},{:.1f} ", x, y_of(column.max));
      lower.insert(0, fmt::format("{:.1f},{:.1f} ", x, y_of(column.min)));
    }
    if (!column.non_finite) continue;
    finish();
    svg += fmt::format(R"(<line class="bad" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}" />)", x,
                       kPlotBottom - 8, kPlotBottom);
  }
  finish();
  return svg;
}

std::string figure(const StepRange& axis, int left, int height, const std::string& content) {
  return fmt::format(R"(<figure data-left="{}" data-right="{}" data-first="{}" data-last="{}">)"
                     "\n"
                     R"(<svg viewBox="0 0 {} {}" role="img">{})"
                     R"(<line class="cursor" x1="0" x2="0" y1="{}" y2="{}" /></svg>)"
                     "\n<output></output>\n</figure>\n",
                     left, kRight, axis.first, axis.last, kWidth, height, content, kPlotTop,
                     height - 22);
}

std::string plot(const Series& series, const StepRange& axis) {
  const std::vector<Column> columns = columns_of(series, axis, kPlotColumns);
  const bool any = series.min <= series.max;
  const Scale scale = any ? scale_of({&series}) : Scale{};
  std::string svg;
  for (const double tick : any ? ticks_of(scale) : std::vector<double>()) {
    const double y = kPlotBottom - scale.position(tick) * (kPlotBottom - kPlotTop);
    svg += fmt::format(R"(<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}" />)", kLeft,
                       kRight, y, y);
    svg += fmt::format(R"(<text x="{}" y="{:.1f}" text-anchor="end">{}</text>)", kLeft - 6, y + 4,
                       short_number(tick));
  }
  std::string values;
  for (size_t i = 0; i < columns.size(); i++) {
    values += (i == 0 ? "" : " ") + shown_value(columns[i]);
  }
  svg += curve_paths(columns, scale) + step_axis(axis, kLeft, kPlotHeight - 6);
  svg +=
      fmt::format(R"(<g data-top="0" data-bottom="{}" data-values="{}"></g>)", kPlotHeight, values);
  return figure(axis, kLeft, kPlotHeight, svg);
}

std::string heat_class(const HeatCell& cell, const HeatScale& scale) {
  switch (cell.kind) {
    case HeatCell::Kind::kNone:
      return "";
    case HeatCell::Kind::kZero:
      return "zero";
    case HeatCell::Kind::kNonFinite:
      return "nan";
    case HeatCell::Kind::kValue:
      break;
  }
  const int color = static_cast<int>(scale.position(cell.rms) * kHeatColors);
  return fmt::format("h{}", std::clamp(color, 0, kHeatColors - 1));
}

std::string heat_value(const HeatCell& cell) {
  switch (cell.kind) {
    case HeatCell::Kind::kNone:
      return "";
    case HeatCell::Kind::kZero:
      return "0";
    case HeatCell::Kind::kNonFinite:
      return "NaN";
    case HeatCell::Kind::kValue:
      break;
  }
  return short_number(cell.rms);
}

// One layer: neighbouring cells of one colour are one rectangle.
std::string heat_row(const Layer& layer, const HeatScale& scale, const StepRange& axis, int top) {
  const std::vector<HeatCell> cells = heat_cells(layer.gradient, axis, kHeatColumns);
  const std::string label =
      layer.class_name.empty() ? layer.name : layer.name + "  " + layer.class_name;
  std::string svg = fmt::format(R"(<text x="{}" y="{}" text-anchor="end">{}</text>)", kHeatLeft - 6,
                                top + 11, escape_html(cut_middle(clean(label), 32)));
  std::string values;
  const double width = double(kRight - kHeatLeft) / kHeatColumns;
  for (int from = 0; from < kHeatColumns;) {
    const std::string name = heat_class(cells[from], scale);
    int to = from + 1;
    while (to < kHeatColumns && heat_class(cells[to], scale) == name) to++;
    if (!name.empty()) {
      svg += fmt::format(R"(<rect class="{}" x="{:.1f}" y="{}" width="{:.1f}" height="{}" />)",
                         name, kHeatLeft + from * width, top, (to - from) * width, kHeatRow - 1);
    }
    from = to;
  }
  for (int i = 0; i < kHeatColumns; i++) values += (i == 0 ? "" : " ") + heat_value(cells[i]);
  svg += fmt::format(R"(<g data-name="{}" data-top="{}" data-bottom="{}" data-values="{}"></g>)",
                     escape_html(layer.name), top, top + kHeatRow, values);
  return svg;
}

std::string heat_map(const std::vector<Layer>& all, const StepRange& axis) {
  const std::vector<Layer> layers = folded_layers(all, kHeatRowsMax);
  const HeatScale scale = heat_scale(layers);
  std::string svg;
  int top = kPlotTop;
  for (const Layer& layer : layers) {
    svg += heat_row(layer, scale, axis, top) + "\n";
    top += kHeatRow;
  }
  const int axis_y = top + 14;
  svg += step_axis(axis, kHeatLeft, axis_y);
  const int legend = axis_y + 10;
  svg += fmt::format(R"(<text x="{}" y="{}" text-anchor="end">1e{:+03d}</text>)", kHeatLeft - 6,
                     legend + 10, scale.low);
  for (int i = 0; i < kHeatColors; i++) {
    svg += fmt::format(R"(<rect class="h{}" x="{}" y="{}" width="18" height="12" />)", i,
                       kHeatLeft + 18 * i, legend);
  }
  const int after = kHeatLeft + 18 * kHeatColors + 6;
  svg += fmt::format(R"(<text x="{}" y="{}">1e{:+03d}</text>)", after, legend + 10, scale.high);
  svg += fmt::format(R"(<rect class="nan" x="{}" y="{}" width="18" height="12" />)", after + 60,
                     legend);
  svg += fmt::format(R"(<text x="{}" y="{}">NaN or Inf</text>)", after + 84, legend + 10);
  svg += fmt::format(R"(<rect class="zero" x="{}" y="{}" width="18" height="12" />)", after + 160,
                     legend);
  svg += fmt::format(R"(<text x="{}" y="{}">all zero</text>)", after + 184, legend + 10);
  return figure(axis, kHeatLeft, legend + 22, svg);
}

std::string heading(const std::string& title, const std::string& remark = {}) {
  return fmt::format("<h2><span>{}</span><small>{}</small></h2>\n", escape_html(title),
                     escape_html(remark));
}

std::string joined(const std::vector<std::string>& parts, const char* separator) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : separator) + part;
  return text;
}

std::string remark_of(const Series& series) {
  std::vector<std::string> parts;
  if (series.first_non_finite >= 0) {
    parts.push_back(fmt::format("not finite from step {}", series.first_non_finite));
  }
  if (series.min <= series.max) {
    if (scale_of({&series}).log) parts.push_back("log scale");
    parts.push_back("min " + short_number(series.min));
    parts.push_back("max " + short_number(series.max));
  }
  parts.push_back("last " + short_number(series.last));
  return joined(parts, " · ");
}

std::string definition(const char* term, const std::string& html) {
  return fmt::format("<dt>{}</dt><dd>{}</dd>\n", term, html);
}

std::string problem(const Problem& problem) {
  const rules::Finding& finding = problem.finding;
  const char* severity = rules::severity_name(finding.severity);
  std::string html =
      fmt::format(R"(<article class="{0}"><h3><span class="{0}">{0}</span><span>{1}</span>)"
                  R"(<code>{2}</code><span class="steps">{3}</span></h3>)"
                  "\n<p>{4}</p>\n<dl>\n",
                  severity, escape_html(finding.id), escape_html(finding.tensor.value_or("")),
                  escape_html(steps_text(finding)), escape_html(finding.message));
  if (const std::string where = where_text(finding); !where.empty()) {
    std::string source = "<code>" + escape_html(where) + "</code>";
    if (problem.quote.changed) source += " (the file was changed since)";
    std::string line = clean(problem.quote.line);
    line.erase(0, line.find_first_not_of(' '));
    if (!line.empty()) source += "<pre>" + escape_html(line) + "</pre>";
    html += definition("where", source);
  }
  for (const std::string& evidence : finding.evidence) {
    html += definition("seen", escape_html(evidence));
  }
  if (finding.tensors.size() > 1) {
    html +=
        definition("tensors", "<code>" + escape_html(joined(finding.tensors, ", ")) + "</code>");
  }
  if (!finding.fix.empty()) html += definition("fix", escape_html(finding.fix));
  if (finding.confidence > 0) {
    html += definition("confidence", fmt::format("{:.0f} %", finding.confidence * 100));
  }
  return html + "</dl></article>\n";
}

// The crash for which the job waits, or of which it died.
std::string failure(const Report& report) {
  const Json& failure = report.info.failure;
  if (!failure.is_object()) return "";
  const bool is_paused = report.info.status == "paused";
  std::string said;
  for (const std::string& line : message_lines(failure_message(failure), kMessageColumnsMax)) {
    said += (said.empty() ? "" : "<br />\n") + escape_html(line);
  }
  std::string html =
      fmt::format(R"(<article class="{0}"><h3><span class="{0}">{1}</span><span>{2}</span></h3>)"
                  "\n<p>{3}</p>\n<dl>\n",
                  is_paused ? "warning" : "error", is_paused ? "paused" : "failed",
                  escape_html(exception_of(failure)), said);
  if (report.failure_place) {
    rules::Finding place;
    place.where = report.failure_place;
    std::string source = "<code>" + escape_html(where_text(place)) + "</code>";
    std::string line = clean(report.failure_quote.line);
    line.erase(0, line.find_first_not_of(' '));
    if (!line.empty()) source += "<pre>" + escape_html(line) + "</pre>";
    html += definition("where", source);
  }
  if (is_paused) {
    html += definition("repair", "<code>paramedic attach " + escape_html(report.name) + "</code>");
  } else {
    const auto add = [&](const char* term, const std::string& text) {
      if (!text.empty()) html += definition(term, escape_html(text));
    };
    add("cause", cause_of(failure));
    add("stage", string_or(failure, "stage", ""));
    add("retry", retry_of(failure));
    add("fix", string_or(failure, "fix", ""));
    add("collect", string_or(failure, "collect_next", ""));
  }
  return html + "</dl></article>\n";
}

std::string repairs(const Report& report) {
  if (report.repairs.empty()) return "";
  std::string html = heading("repairs") +
                     "<table>\n<tr><th class=\"number\">step</th><th>rank</th><th>kind</th>"
                     "<th>by</th><th>where</th><th>exception</th><th class=\"number\">ms</th>"
                     "<th>patch</th></tr>\n";
  for (const store::RepairRow& row : report.repairs) {
    const std::string where = row.file.empty() ? "" : fmt::format("{}:{}", row.file, row.line);
    html += fmt::format(
        "<tr><td class=\"number\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
        "<td class=\"number\">{:.1f}</td><td>{}</td></tr>\n",
        row.step < 0 ? "" : std::to_string(row.step), row.rank, escape_html(row.kind),
        escape_html(row.by), escape_html(where), escape_html(row.exception), row.took_ms,
        escape_html(row.patch));
  }
  return html + "</table>\n";
}

std::string verdict(const Report& report) {
  const size_t errors = report.count(rules::Severity::kError);
  const size_t warnings = report.count(rules::Severity::kWarning);
  if (errors + warnings > 0) {
    return fmt::format(R"(<span class="{}">{}</span>)", errors > 0 ? "error" : "warning",
                       counted(errors + warnings, "problem"));
  }
  if (report.info.status == "paused") return R"(<span class="warning">paused</span>)";
  if (std::string_view(report.health()) == "failed") return R"(<span class="error">failed</span>)";
  return report.info.framework.empty() ? "<span>nothing seen</span>"
                                       : R"(<span class="good">healthy</span>)";
}

std::string header(const Report& report) {
  return fmt::format(
      "<header>\n<h1><span>{}</span>{}</h1>\n<p class=\"command\"><code>{}</code></p>\n"
      "<p class=\"facts\">{}</p>\n<p class=\"facts\">{}</p>\n</header>\n",
      escape_html(report.name), verdict(report), escape_html(command_text(report.info.command)),
      escape_html(joined(status_parts(report), " · ")),
      escape_html(joined(model_parts(report), " · ")));
}

std::string curves(const Report& report) {
  const StepRange axis = report.steps();
  std::string html;
  const auto add = [&](const std::string& title, const Series& series) {
    if (series.count > 0) html += heading(title, remark_of(series)) + plot(series, axis);
  };
  for (const Series& loss : report.losses) {
    add("loss " + loss.name + (loss.mode == "train" ? "" : " (" + loss.mode + ")"), loss);
  }
  add("gradient norm", report.norm);
  add("gradient norm before clipping", report.norm_before_clip);
  if (!report.layers.empty()) {
    html += heading("gradient by layer", "root mean square, layers in forward order");
    html += heat_map(report.layers, axis);
  }
  for (const Series& rate : report.rates) add("learning rate " + rate.name, rate);
  return html;
}

std::string times(const Report& report) {
  double total = 0;
  for (const Phase& phase : report.phases) total += phase.total_ms;
  if (total <= 0) return "";
  const std::string step =
      report.steps_timed > 0
          ? duration(report.step_ms_total / double(report.steps_timed) / 1000) + " a step"
          : "";
  std::string html = heading("time", step) + "<table>\n";
  for (const Phase& phase : report.phases) {
    const double percent = phase.total_ms / total * 100;
    html +=
        fmt::format(R"(<tr><td>{}</td><td class="number">{:.1f} %</td><td class="number">{}</td>)"
                    R"(<td class="wide"><div class="bar" style="width:{:.1f}%"></div></td></tr>)"
                    "\n",
                    escape_html(phase.name), percent, duration(phase.total_ms / 1000), percent);
  }
  return html + "</table>\n";
}

std::string ranks(const store::RunInfo& info) {
  if (info.ranks.empty()) return "";
  std::string html = heading("ranks") +
                     "<table>\n<tr><th>rank</th><th>host</th><th>process</th><th>status</th>"
                     "<th class=\"number\">last step</th></tr>\n";
  for (const store::RunInfo::Rank& rank : info.ranks) {
    html += fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"number\">{}</td></tr>\n",
        rank.rank, escape_html(rank.host), rank.pid, escape_html(rank.status), rank.last_step);
  }
  return html + "</table>\n";
}

std::string lists(const Report& report) {
  std::string html;
  if (!report.info.not_captured.empty()) {
    html += heading("not captured") + "<table>\n";
    for (const auto& [what, why] : report.info.not_captured) {
      html += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", escape_html(what), escape_html(why));
    }
    html += "</table>\n";
  }
  if (report.damage.empty()) return html;
  html += heading("damaged, skipped") + "<table>\n";
  for (const store::Damage& damage : report.damage) {
    html += fmt::format("<tr><td>{}</td><td class=\"number\">{}</td><td>{}</td></tr>\n",
                        escape_html(damage.file), damage.offset, escape_html(damage.what));
  }
  return html + "</table>\n";
}

// The template around its parts; what a part holds is never looked at again.
std::string filled(std::string_view text, const std::string& title, const std::string& body) {
  constexpr std::string_view kTitle = "{{title}}";
  constexpr std::string_view kBody = "{{body}}";
  const size_t title_at = text.find(kTitle);
  const size_t body_at = text.find(kBody);
  PARAMEDIC_CHECK(title_at < body_at && body_at != std::string_view::npos);
  std::string page(text.substr(0, title_at));
  page += title;
  page += text.substr(title_at + kTitle.size(), body_at - title_at - kTitle.size());
  page += body;
  page += text.substr(body_at + kBody.size());
  return page;
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string escaped;
  for (const char c : clean(text)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string render_html(const Report& report) {
  std::string body = header(report) + failure(report);
  for (const Problem& each : report.problems) body += problem(each);
  body += repairs(report);
  if (report.ranks_view) body += ranks_html(*report.ranks_view);
  body += curves(report) + times(report) + ranks(report.info) + lists(report);
  body += fmt::format("<footer>{} · made by paramedic</footer>\n", escape_html(report.info.dir));
  return html_page(report.name, body);
}

std::string html_page(const std::string& title, const std::string& body) {
  return filled(report_template(), escape_html(title) + " · paramedic", body);
}

Status write_html(const std::string& path, const std::string& html, bool force) {
  FileSystem& files = posix_file_system();
  if (force) return files.write_atomically(path, as_bytes(html));
  if (files.exists(path)) {
    return invalid_argument(path + " exists already", "--force overwrites it");
  }
  PARAMEDIC_ASSIGN(const auto file, files.create(path));
  PARAMEDIC_TRY(file->append(as_bytes(html)));
  return file->close();
}

}  // namespace paramedic::cli
