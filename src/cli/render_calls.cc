#include "cli/render_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "cli/render_json.h"
#include "cli/render_text.h"
#include "cluster/hang.h"

namespace paramedic::cli {
namespace {

using cluster::GroupStanding;

constexpr size_t kGroupsShown = 16;
constexpr size_t kProblemsShown = 10;
constexpr size_t kBehindShown = 4;
constexpr int kNameWidth = 20;
constexpr int kNumberWidth = 8;

// "rank 2 (call 14)", "ranks 2 (call 14), 5 (none) and 7 more".
std::string behind_text(const GroupStanding& group) {
  std::string text = group.behind.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < std::min(group.behind.size(), kBehindShown); ++i) {
    const auto& [rank, last] = group.behind[i];
    text += fmt::format("{}{} ({})", i == 0 ? "" : ", ", rank,
                        last < 0 ? "none" : fmt::format("call {}", last));
  }
  if (group.behind.size() > kBehindShown) {
    text += fmt::format(" and {} more", group.behind.size() - kBehindShown);
  }
  return text + " behind";
}

std::string standing_text(const GroupStanding& group) {
  std::vector<std::string> parts;
  if (group.parted) parts.push_back(fmt::format("parted at call {}", *group.parted));
  if (!group.behind.empty()) parts.push_back(behind_text(group));
  if (!group.inside.empty()) {
    parts.push_back(cluster::name_ranks(group.inside) + " inside of the last one");
  }
  if (!group.without_dump.empty()) {
    parts.push_back("no dump of " + cluster::name_ranks(group.without_dump));
  }
  if (!group.not_known.empty()) {
    parts.push_back("overwritten on " + cluster::name_ranks(group.not_known));
  }
  if (parts.empty()) return group.furthest < 0 ? "nothing was called" : "all are through";
  std::string text = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) text += "; " + parts[i];
  return text;
}

std::string groups_text(const CallsView& view, const Paint& paint, int width) {
  std::string out = paint(Style::kDim, pad("group", kNameWidth) + pad_left("ranks", kNumberWidth) +
                                           pad_left("calls", kNumberWidth) + "  standing") +
                    "\n";
  const int left = kNameWidth + 2 * kNumberWidth + 2;
  const auto& groups = view.verdict.groups;
  for (size_t i = 0; i < std::min(groups.size(), kGroupsShown); ++i) {
    const GroupStanding& group = groups[i];
    const std::string name = clean(group.name);
    const std::string label =
        group.description.empty() ? name : fmt::format("{} {}", name, clean(group.description));
    const auto lines = wrap(standing_text(group), std::max(width - left, 20));
    out += pad(cut_middle(label, kNameWidth), kNameWidth) +
           pad_left(with_commas(group.members.size()), kNumberWidth) +
           pad_left(group.furthest < 0 ? "-" : with_commas(static_cast<uint64_t>(group.furthest)),
                    kNumberWidth) +
           "  " + lines[0] + "\n";
    for (size_t line = 1; line < lines.size(); ++line) {
      out += std::string(static_cast<size_t>(left), ' ') + lines[line] + "\n";
    }
  }
  if (groups.size() > kGroupsShown) {
    out += paint(Style::kDim, fmt::format("and {} groups more\n", groups.size() - kGroupsShown));
  }
  return out;
}

// Not wrapped: a path is to be copied.
std::string problems_text(const CallsView& view, const Paint& paint) {
  std::string out;
  const size_t shown = std::min(view.problems.size(), kProblemsShown);
  for (size_t i = 0; i < shown; ++i) {
    out += paint(Style::kWarning, "note") + "  " + clean(view.problems[i]) + "\n";
  }
  if (view.problems_total > shown) {
    out += paint(Style::kDim,
                 fmt::format("and {} more; --json has them\n", view.problems_total - shown));
  }
  return out.empty() ? out : out + "\n";
}

Json ranks_json(const std::vector<int32_t>& ranks) { return ranks; }

Json group_json(const GroupStanding& group) {
  Json behind = Json::array();
  for (const auto& [rank, last] : group.behind) {
    behind.push_back({{"rank", rank}, {"last", last < 0 ? Json(nullptr) : Json(last)}});
  }
  return {{"name", group.name},
          {"description", group.description.empty() ? Json(nullptr) : Json(group.description)},
          {"ranks", ranks_json(group.members)},
          {"last", group.furthest < 0 ? Json(nullptr) : Json(group.furthest)},
          {"behind", std::move(behind)},
          {"inside", ranks_json(group.inside)},
          {"parted_at", group.parted ? Json(*group.parted) : Json(nullptr)},
          {"without_dump", ranks_json(group.without_dump)},
          {"not_known", ranks_json(group.not_known)}};
}

}  // namespace

std::string calls_text(const CallsView& view, const Paint& paint, int width) {
  std::string out;
  for (const rules::Finding& finding : view.verdict.findings) {
    out += problem_line(finding, paint) + "\n";
    const auto paragraph = [&](const std::string& text, const char* begin) {
      const std::string indent(std::string_view(begin).size(), ' ');
      bool first = true;
      for (const std::string& line : wrap(clean(text), width - 6)) {
        out += "    " + (std::exchange(first, false) ? begin : indent) + line + "\n";
      }
    };
    paragraph(finding.message, "");
    for (const std::string& line : finding.evidence) paragraph(line, "- ");
    paragraph("fix: " + finding.fix, "");
    out += '\n';
  }
  if (!view.verdict.groups.empty()) out += groups_text(view, paint, width) + "\n";
  out += problems_text(view, paint);
  const size_t found = view.verdict.findings.size();
  // Of what was not seen nothing is said.
  const char* none = view.calls == 0 ? "no call was seen" : "nothing wrong";
  return out + fmt::format("{} ({}, {}, {})\n", found == 0 ? none : fmt::format("{} found", found),
                           view.source, counted(view.ranks, "rank"), counted(view.calls, "call"));
}

Json calls_json(const CallsView& view) {
  Json findings = Json::array();
  for (const rules::Finding& finding : view.verdict.findings) findings.push_back(finding.to_json());
  Json groups = Json::array();
  for (const GroupStanding& group : view.verdict.groups) groups.push_back(group_json(group));
  return {{"schema", kJsonSchema},
          {"source", view.source},
          {"ranks", view.ranks},
          {"calls", view.calls},
          {"findings", std::move(findings)},
          {"groups", std::move(groups)},
          {"problems", view.problems},
          {"problems_total", view.problems_total}};
}

}  // namespace paramedic::cli
