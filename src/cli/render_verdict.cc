#include "cli/render_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "base/lines.h"

namespace paramedic::cli {
namespace {

using diagnose::Diagnosis;
using diagnose::Verdict;

constexpr int kLabelWidth = 12;

std::string labelled(const char* label, const std::string& text, const Paint& paint, int width) {
  std::string out;
  for (const std::string& line : wrap(clean(text), std::max(width - kLabelWidth - 2, 20))) {
    out += "  " +
           (out.empty() ? paint(Style::kDim, pad(label, kLabelWidth))
                        : std::string(kLabelWidth, ' ')) +
           line + "\n";
  }
  return out;
}

// "0-3, 7"
std::string ranges(const std::vector<int>& ranks) {
  std::string out;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (!out.empty()) out += ", ";
    out += last == i ? fmt::format("{}", ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[last]);
    i = last + 1;
  }
  return out;
}

std::string rank_sentence(const Verdict& verdict) {
  std::string text;
  if (verdict.first_failing_rank >= 0) {
    text = fmt::format("{} failed first", verdict.first_failing_rank);
  }
  if (verdict.ranks.size() > 1) {
    text += fmt::format("{}the same on {}", text.empty() ? "" : "; ", ranges(verdict.ranks));
  }
  return text;
}

std::string facts(const Verdict& verdict, const Paint& paint, int width) {
  std::string out;
  if (!verdict.exception_type.empty()) {
    const std::string message(first_line(verdict.exception_message));
    out += labelled("exception", verdict.exception_type + (message.empty() ? "" : ": ") + message,
                    paint, width);
  }
  if (verdict.where) {
    out += labelled(
        "where",
        fmt::format("{}:{}{}", verdict.where->file, verdict.where->line,
                    verdict.where->function.empty() ? "" : " in " + verdict.where->function),
        paint, width);
  }
  if (verdict.stage != diagnose::Stage::kUnknown) {
    out += labelled("stage", std::string(name(verdict.stage)), paint, width);
  }
  if (const std::string ranks = rank_sentence(verdict); !ranks.empty()) {
    out += labelled("rank", ranks, paint, width);
  }
  out += labelled("retry", fmt::format("{}: {}", name(verdict.retry), verdict.retry_reason), paint,
                  width);
  if (verdict.lost_steps >= 0) {
    out += labelled(
        "lost",
        counted(static_cast<uint64_t>(verdict.lost_steps), "step") + " since the last checkpoint",
        paint, width);
  }
  if (!verdict.fix.empty()) out += labelled("what to do", verdict.fix, paint, width);
  if (!verdict.collect_next.empty()) {
    out += labelled("collect", verdict.collect_next, paint, width);
  }
  out += labelled("fingerprint", verdict.fingerprint, paint, width);
  return out;
}

Style style_of(diagnose::Role role) {
  return role == diagnose::Role::kRoot ? Style::kError : Style::kDim;
}

std::string line_of_log(const std::string& file, uint64_t line, int rank, diagnose::Role role,
                        const std::string& text, const Paint& paint, int width) {
  const std::string where = fmt::format("{}:{}", file, line);
  const std::string who = rank >= 0 ? fmt::format(" [rank {}]", rank) : "";
  const std::string role_name(name(role));
  std::string out = fmt::format("  {} {}{}\n", paint(style_of(role), pad(role_name, kLabelWidth)),
                                clean(where), who);
  out += std::string(kLabelWidth + 3, ' ') +
         cut(clean(text), std::max(width - kLabelWidth - 3, 20)) + "\n";
  return out;
}

}  // namespace

std::vector<const diagnose::Event*> in_order(const diagnose::Timeline& timeline) {
  std::vector<const diagnose::Event*> events;
  events.reserve(timeline.events.size());
  for (const diagnose::Event& event : timeline.events) events.push_back(&event);
  std::sort(events.begin(), events.end(), [](const diagnose::Event* a, const diagnose::Event* b) {
    return std::tie(a->file, a->line, a) < std::tie(b->file, b->line, b);
  });
  return events;
}

std::string verdict_text(const Diagnosis& diagnosis, const Paint& paint, int width) {
  const Verdict& verdict = diagnosis.verdict;
  std::string out;
  const bool bad = verdict.category != diagnose::Category::kNoFailure;
  out += paint(bad ? Style::kError : Style::kGood, name(verdict.category)) + "  " +
         paint(Style::kBold, clean(verdict.title));
  if (verdict.confidence > 0) out += fmt::format("  ({:.0f} %)", verdict.confidence * 100);
  out += "\n" + facts(verdict, paint, width);
  if (!verdict.evidence.empty()) {
    out += paint(Style::kBold, "evidence") + "\n";
    for (const diagnose::Evidence& piece : verdict.evidence) {
      out += line_of_log(piece.file, piece.line, piece.rank, piece.role, piece.text, paint, width);
    }
  }
  if (!verdict.ruled_out.empty()) {
    out += paint(Style::kBold, "not the cause") + "\n";
    for (const diagnose::RuledOut& other : verdict.ruled_out) {
      out +=
          fmt::format("  {} {} (line {})\n", paint(Style::kDim, pad(name(other.role), kLabelWidth)),
                      cut(clean(other.what), std::max(width - kLabelWidth - 20, 20)), other.line);
    }
  }
  if (!diagnosis.other.empty()) {
    out += paint(Style::kBold, "also possible") + "\n";
    for (const Verdict& other : diagnosis.other) {
      out += fmt::format("  {} {} (line {})\n", pad(name(other.category), 22),
                         cut(clean(other.title), std::max(width - 40, 20)),
                         other.evidence.empty() ? 0 : other.evidence.front().line);
    }
  }
  return out;
}

std::string explanation_text(const Diagnosis& diagnosis, const Paint& paint, int width) {
  std::string out = paint(Style::kBold, "timeline") + "\n";
  for (const diagnose::Event* event : in_order(diagnosis.timeline)) {
    out += line_of_log(diagnosis.timeline.files[event->file], event->line, event->rank, event->role,
                       event->text, paint, width);
  }
  if (diagnosis.timeline.events_dropped > 0) {
    out += fmt::format("  and {} more of the same kinds\n",
                       with_commas(diagnosis.timeline.events_dropped));
  }
  out += fmt::format("  {} lines read\n", with_commas(diagnosis.timeline.lines));
  return out;
}

}  // namespace paramedic::cli
