#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/render_html.h"
#include "cli/render_verdict.h"

namespace paramedic::cli {
namespace {

using diagnose::Diagnosis;
using diagnose::Event;
using diagnose::Role;
using diagnose::Verdict;

// Of a flood the first ones; the rest is counted.
constexpr size_t kEventsShown = 500;
constexpr size_t kLanesShown = 64;

std::string definition(const char* term, const std::string& text) {
  if (text.empty()) return "";
  return fmt::format("<dt>{}</dt><dd>{}</dd>\n", term, escape_html(text));
}

std::string known(std::string_view name) { return name == "unknown" ? "" : std::string(name); }

std::string article(const Verdict& verdict) {
  const bool bad = verdict.category != diagnose::Category::kNoFailure;
  std::string html =
      fmt::format(R"(<article class="{0}"><h3><span class="{0}">{1}</span><span>{2}</span>)"
                  R"(<span class="steps">{3:.0f} %</span></h3>)"
                  "\n<dl>\n",
                  bad ? "error" : "good", name(verdict.category), escape_html(verdict.title),
                  verdict.confidence * 100);
  if (!verdict.exception_type.empty()) {
    html += definition("exception", verdict.exception_type +
                                        (verdict.exception_message.empty() ? "" : ": ") +
                                        verdict.exception_message);
  }
  if (verdict.where) {
    html += definition("where", fmt::format("{}:{} {}", verdict.where->file, verdict.where->line,
                                            verdict.where->function));
  }
  html += definition("stage", known(name(verdict.stage)));
  if (verdict.first_failing_rank >= 0) {
    html += definition("rank", fmt::format("{} failed first", verdict.first_failing_rank));
  }
  html += definition("retry", fmt::format("{}: {}", name(verdict.retry), verdict.retry_reason));
  if (verdict.lost_steps >= 0) {
    html += definition("lost", counted(static_cast<uint64_t>(verdict.lost_steps), "step") +
                                   " since the last checkpoint");
  }
  html += definition("what to do", verdict.fix) + definition("collect", verdict.collect_next) +
          definition("fingerprint", verdict.fingerprint);
  return html + "</dl></article>\n";
}

std::string lane_of(const Event& event) {
  if (event.rank >= 0) return fmt::format("rank {}", event.rank);
  return event.writer.empty() ? "job" : event.writer;
}

const char* color_of(Role role) {
  switch (role) {
    case Role::kRoot:
      return "nan";
    case Role::kCascade:
      return "h9";
    case Role::kConfirmation:
      return "h6";
    default:
      return "zero";
  }
}

// One lane for each rank: who said what part of it, from the first event to the last.
std::string lanes(const std::vector<const Event*>& events) {
  constexpr int kLeft = 160;
  constexpr int kWidth = 960;
  constexpr int kRow = 16;
  std::map<std::string, size_t> rows;
  for (const Event* event : events) {
    if (rows.size() < kLanesShown) rows.try_emplace(lane_of(*event), 0);
  }
  size_t next = 0;
  for (auto& [lane, row] : rows) row = next++;
  std::string svg;
  for (const auto& [lane, row] : rows) {
    svg += fmt::format(R"(<text x="{}" y="{}" text-anchor="end">{}</text>)", kLeft - 6,
                       row * kRow + 12, escape_html(cut_middle(clean(lane), 24)));
  }
  const double step = double(kWidth - kLeft) / double(std::max<size_t>(events.size(), 1));
  for (size_t i = 0; i < events.size(); ++i) {
    const auto row = rows.find(lane_of(*events[i]));
    if (row == rows.end()) continue;
    svg += fmt::format(R"(<rect class="{}" x="{:.1f}" y="{}" width="{:.1f}" height="{}">)"
                       R"(<title>{}: {}</title></rect>)",
                       color_of(events[i]->role), kLeft + double(i) * step, row->second * kRow + 2,
                       std::clamp(step - 1, 0.5, 24.0), kRow - 3, name(events[i]->role),
                       escape_html(events[i]->text));
  }
  return fmt::format("<figure><svg viewBox=\"0 0 {} {}\" role=\"img\">{}</svg></figure>\n", kWidth,
                     rows.size() * kRow + 4, svg);
}

std::string row_of(const diagnose::Timeline& timeline, const Event& event) {
  const bool is_root = event.role == Role::kRoot;
  return fmt::format("<tr><td{}>{}</td><td>{}</td><td><code>{}</code></td><td>{}:{}</td></tr>\n",
                     is_root ? " class=\"error\"" : "", name(event.role),
                     escape_html(lane_of(event)), escape_html(event.text),
                     escape_html(timeline.files[event.file]), event.line);
}

std::string timeline(const Diagnosis& diagnosis) {
  const std::vector<const Event*> events = in_order(diagnosis.timeline);
  if (events.empty()) return "";
  std::string html =
      "<h2><span>timeline</span><small>events by rank, in the order of the log"
      "</small></h2>\n" +
      lanes(events) + "<table>\n<tr><th>part</th><th>rank</th><th>text</th><th>line</th></tr>\n";
  const size_t shown = std::min(events.size(), kEventsShown);
  for (size_t i = 0; i < shown; ++i) html += row_of(diagnosis.timeline, *events[i]);
  html += "</table>\n";
  const uint64_t more = events.size() - shown + diagnosis.timeline.events_dropped;
  if (more > 0) html += fmt::format("<p>and {} more</p>\n", with_commas(more));
  return html;
}

}  // namespace

std::string verdict_html(const Diagnosis& diagnosis) {
  std::string names;
  for (const std::string& file : diagnosis.timeline.files) {
    if (!names.empty()) names += ", ";
    names += file;
  }
  std::string body = fmt::format(
      "<header>\n<h1><span>why it failed</span></h1>\n<p class=\"command\"><code>{}</code></p>\n"
      "<p class=\"facts\">{} lines read</p>\n</header>\n",
      escape_html(names), with_commas(diagnosis.timeline.lines));
  body += article(diagnosis.verdict);
  for (const Verdict& other : diagnosis.other) {
    body += "<h2><span>also possible</span></h2>\n" + article(other);
  }
  body += timeline(diagnosis) + "<footer>made by paramedic</footer>\n";
  return html_page(std::string(name(diagnosis.verdict.category)), body);
}

}  // namespace paramedic::cli
