#include "cli/render_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/render_html.h"
#include "cluster/hang.h"

namespace paramedic::cli {
namespace {

constexpr size_t kRowsMax = 32;
constexpr size_t kPageRowsMax = 200;
constexpr size_t kWaitsShown = 6;
constexpr int kShareWidth = 6;
constexpr int kSvgWidth = 960;  // of the drawing, in its own units
constexpr int kSvgLeft = 110;
constexpr int kSvgRow = 14;
// One letter for each act, in the order of Act: what a script reads as well.
constexpr const char* kLetters = ".wdeW!";

struct Glyph {
  const char* text;
  Style style;
};

Glyph glyph_of(Act act) {
  switch (act) {
    case Act::kNone:
      break;
    case Act::kWorks:
      return {"█", Style::kGood};
    case Act::kData:
      return {"d", Style::kAccent};
    case Act::kEvaluates:
      return {"e", Style::kInfo};
    case Act::kWaits:
      return {"░", Style::kDim};
    case Act::kStandsStill:
      return {"!", Style::kError};
  }
  return {" ", Style::kDim};
}

std::string label_of(const RankStrip& strip) {
  if (strip.ranks == 1) return fmt::format("{}", strip.first);
  const auto between = static_cast<size_t>(strip.last - strip.first) + 1;
  std::string text = fmt::format("{}-{}", strip.first, strip.last);
  if (between != strip.ranks) text += fmt::format(" ({})", strip.ranks);
  return text;
}

double wait_percent(const RankStrip& strip) {
  double total = 0;
  for (size_t act = 1; act < kActs; ++act) total += strip.ms[act];
  return total > 0 ? strip.ms[static_cast<size_t>(Act::kWaits)] / total * 100 : 0;
}

std::string strip_line(const RankStrip& strip, int label_width, size_t columns,
                       const Paint& paint) {
  std::string line = "  " + pad_left(label_of(strip), label_width) + " ";
  const std::vector<Act> acts = strip_columns(strip, columns);
  for (size_t from = 0; from < acts.size();) {
    std::string run;
    size_t to = from;
    for (; to < acts.size() && acts[to] == acts[from]; ++to) run += glyph_of(acts[to]).text;
    line += paint(glyph_of(acts[from]).style, run);
    from = to;
  }
  return line + pad_left(fmt::format("{:.0f} %", wait_percent(strip)), kShareWidth);
}

std::string legend(const std::vector<RankStrip>& strips, const Paint& paint) {
  std::string text;
  for (size_t act = 1; act < kActs; ++act) {
    const bool any = std::any_of(strips.begin(), strips.end(), [&](const RankStrip& strip) {
      return std::find(strip.cells.begin(), strip.cells.end(), static_cast<Act>(act)) !=
             strip.cells.end();
    });
    if (!any) continue;
    const Glyph glyph = glyph_of(static_cast<Act>(act));
    text += (text.empty() ? "" : "  ") + paint(glyph.style, glyph.text) + " " +
            act_name(static_cast<Act>(act));
  }
  return text;
}

std::string wait_text(const RankWait& wait) {
  std::string text = fmt::format("{} in {}", cluster::name_ranks(wait.waiters), wait.in);
  if (wait.missing.empty()) return text + ": all have come";
  text += ", for " + cluster::name_ranks(wait.missing);
  return wait.they.empty() ? text : text + ", which " + wait.they;
}

const char* color_of(Act act) {
  switch (act) {
    case Act::kNone:
    case Act::kWaits:
      return "--rule";
    case Act::kWorks:
      return "--good";
    case Act::kData:
      return "--curve";
    case Act::kEvaluates:
      return "--info";
    case Act::kStandsStill:
      break;
  }
  return "--error";
}

std::string rect(Act act, double x, int y, double width) {
  return fmt::format(
      R"-(<rect style="fill: var({})" x="{:.1f}" y="{}" width="{:.1f}" height="{}" />)-",
      color_of(act), x, y, width, kSvgRow - 2);
}

std::string svg_row(const RankStrip& strip, int top) {
  std::string svg = fmt::format(R"(<text x="{}" y="{}" text-anchor="end">{}</text>)", kSvgLeft - 6,
                                top + 10, escape_html(label_of(strip)));
  constexpr double kCell = static_cast<double>(kSvgWidth - kSvgLeft) / kStripCells;
  for (size_t from = 0; from < kStripCells;) {
    size_t to = from + 1;
    while (to < kStripCells && strip.cells[to] == strip.cells[from]) ++to;
    if (strip.cells[from] != Act::kNone) {
      svg += rect(strip.cells[from], kSvgLeft + static_cast<double>(from) * kCell, top,
                  static_cast<double>(to - from) * kCell);
    }
    from = to;
  }
  return svg + "\n";
}

std::string svg_legend(int top) {
  std::string svg;
  double x = kSvgLeft;
  for (size_t act = 1; act < kActs; ++act) {
    svg += rect(static_cast<Act>(act), x, top, 18);
    svg += fmt::format(R"(<text x="{:.0f}" y="{}">{}</text>)", x + 24, top + 10,
                       act_name(static_cast<Act>(act)));
    x += 150;
  }
  return svg;
}

}  // namespace

std::vector<std::string> ranks_lines(const RanksView& view, int width, const Paint& paint) {
  const std::vector<RankStrip> strips = folded_strips(view.strips, kRowsMax);
  int label_width = 4;
  for (const RankStrip& strip : strips) {
    label_width = std::max(label_width, display_width(label_of(strip)));
  }
  const auto columns = static_cast<size_t>(std::max(width - label_width - 3 - kShareWidth, 8));
  std::vector<std::string> lines;
  for (const RankStrip& strip : strips) {
    lines.push_back(strip_line(strip, label_width, columns, paint));
  }
  const std::string indent(static_cast<size_t>(label_width) + 3, ' ');
  const std::string length = duration(view.seconds);
  const auto room = static_cast<int>(columns) - display_width(length) - 1;
  lines.push_back(indent + paint(Style::kDim, pad("0", room) + " " + length + " waits"));
  if (const std::string signs = legend(strips, paint); !signs.empty()) {
    lines.push_back(indent + signs);
  }
  for (size_t i = 0; i < std::min(view.waits.size(), kWaitsShown); ++i) {
    bool first = true;
    for (const std::string& part : wrap(clean(wait_text(view.waits[i])), width - 4)) {
      lines.push_back((first ? "  · " : "    ") + part);
      first = false;
    }
  }
  for (const std::string& part : wrap(clean(view.verdict), width - 2)) lines.push_back("  " + part);
  return lines;
}

Json ranks_view_json(const RanksView& view) {
  Json acts = Json::object();
  for (size_t act = 0; act < kActs; ++act) {
    acts[std::string(1, kLetters[act])] = act_name(static_cast<Act>(act));
  }
  Json ranks = Json::array();
  for (const RankStrip& strip : view.strips) {
    std::string cells;
    for (const Act act : strip.cells) cells += kLetters[static_cast<size_t>(act)];
    Json seconds = Json::object();
    for (size_t act = 1; act < kActs; ++act) {
      seconds[std::string(1, kLetters[act])] = std::round(strip.ms[act]) / 1e3;
    }
    ranks.push_back({{"rank", strip.first}, {"strip", cells}, {"seconds", std::move(seconds)}});
  }
  Json waits = Json::array();
  for (const RankWait& wait : view.waits) {
    waits.push_back({{"ranks", wait.waiters},
                     {"in", wait.in},
                     {"for", wait.missing},
                     {"which", wait.they.empty() ? Json(nullptr) : Json(wait.they)}});
  }
  return {{"seconds", view.seconds},
          {"letters", std::move(acts)},
          {"ranks", std::move(ranks)},
          {"waits", std::move(waits)},
          {"verdict", view.verdict}};
}

std::string ranks_html(const RanksView& view) {
  std::string svg;
  int top = 4;
  for (const RankStrip& strip : folded_strips(view.strips, kPageRowsMax)) {
    svg += svg_row(strip, top);
    top += kSvgRow;
  }
  svg += fmt::format(R"(<text x="{}" y="{}">0</text>)", kSvgLeft, top + 12);
  svg += fmt::format(R"(<text x="{}" y="{}" text-anchor="end">{}</text>)", kSvgWidth, top + 12,
                     duration(view.seconds));
  svg += svg_legend(top + 20);
  std::string html = fmt::format(
      "<h2><span>what the ranks did</span><small>rank by time</small></h2>\n"
      R"(<svg viewBox="0 0 {} {}" role="img">{}</svg>)"
      "\n<p>{}</p>\n",
      kSvgWidth, top + 36, svg, escape_html(view.verdict));
  if (view.waits.empty()) return html;
  html += "<ul>\n";
  for (const RankWait& wait : view.waits) {
    html += "<li>" + escape_html(wait_text(wait)) + "</li>\n";
  }
  return html + "</ul>\n";
}

}  // namespace paramedic::cli
