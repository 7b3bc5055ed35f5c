#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/median.h"
#include "cli/ranks_view.h"
#include "cluster/hang.h"
#include "cluster/watch.h"

namespace paramedic::cli {
namespace {

constexpr size_t kOutliersMax = 10;
// A rank that works or stands still for this much more of its time than most keeps its own row.
constexpr double kOutlierShare = 0.1;
// Less than this is no difference worth a sentence.
constexpr double kToldShare = 0.1;

double total_of(const RankStrip& strip) {
  return std::accumulate(strip.ms.begin(), strip.ms.end(), 0.0) -
         strip.ms[static_cast<size_t>(Act::kNone)];
}

double share_of(const RankStrip& strip, Act act) {
  const double total = total_of(strip);
  return total > 0 ? strip.ms[static_cast<size_t>(act)] / total : 0;
}

// Of the time of a rank, what it spends on itself.
double own_share(const RankStrip& strip) {
  return share_of(strip, Act::kWorks) + share_of(strip, Act::kData) +
         share_of(strip, Act::kEvaluates);
}

double median_own_share(const std::vector<RankStrip>& strips) {
  std::vector<double> shares;
  for (const RankStrip& strip : strips) {
    if (total_of(strip) > 0) shares.push_back(own_share(strip));
  }
  return median_of(std::move(shares));
}

// How unlike the others a rank is; 0: not at all.
double oddness(const RankStrip& strip, double usual) {
  const double away = std::abs(own_share(strip) - usual);
  const bool stands = strip.ms[static_cast<size_t>(Act::kStandsStill)] > 0;
  return (stands ? 1 : 0) + (away >= kOutlierShare ? away : 0);
}

// The act that most of `votes` have; of as many the one that says more.
Act most_of(const std::array<size_t, kActs>& votes) {
  size_t best = static_cast<size_t>(Act::kNone);
  for (size_t act = 1; act < kActs; ++act) {
    if (votes[act] > 0 && votes[act] >= votes[best]) best = act;
    if (best == static_cast<size_t>(Act::kNone) && votes[act] > 0) best = act;
  }
  return static_cast<Act>(best);
}

RankStrip merged(const std::vector<const RankStrip*>& strips) {
  RankStrip all;
  all.first = strips.front()->first;
  all.last = strips.back()->last;
  all.ranks = 0;
  for (const RankStrip* strip : strips) {
    all.ranks += strip->ranks;
    for (size_t act = 0; act < kActs; ++act) {
      all.ms[act] += strip->ms[act] / static_cast<double>(strips.size());
    }
  }
  for (size_t cell = 0; cell < kStripCells; ++cell) {
    std::array<size_t, kActs> votes{};
    for (const RankStrip* strip : strips) ++votes[static_cast<size_t>(strip->cells[cell])];
    all.cells[cell] = most_of(votes);
  }
  return all;
}

bool is_between_ranks(const rules::Finding& finding) {
  const auto& watches = cluster::watch_entries();
  return std::any_of(watches.begin(), watches.end(),
                     [&](const cluster::WatchEntry& entry) { return finding.id == entry.info.id; });
}

std::string found_sentence(const std::vector<rules::Finding>& findings) {
  const rules::Finding* worst = nullptr;
  size_t more = 0;
  for (const rules::Finding& finding : findings) {
    if (finding.severity == rules::Severity::kInfo || !is_between_ranks(finding)) continue;
    ++more;
    if (worst == nullptr || finding.severity > worst->severity) worst = &finding;
  }
  if (worst == nullptr) return "Nothing was found to be wrong between the ranks.";
  std::string text = fmt::format("{}: {}.", worst->id, worst->message);
  if (more > 1) text += fmt::format(" {} more found between the ranks.", more - 1);
  return text;
}

std::string percent(double share) { return fmt::format("{:.0f} %", share * 100); }

std::string time_sentence(const RanksView& view) {
  if (view.strips.empty()) return {};
  std::vector<double> waits;
  for (const RankStrip& strip : view.strips) waits.push_back(share_of(strip, Act::kWaits));
  const double usual = median_own_share(view.strips);
  const auto busiest = std::max_element(
      view.strips.begin(), view.strips.end(),
      [](const RankStrip& a, const RankStrip& b) { return own_share(a) < own_share(b); });
  std::string text = fmt::format(
      "Of {} ranks, most spent {} of their time on their own work and {} "
      "waiting for others.",
      view.strips.size(), percent(usual), percent(median_of(waits)));
  if (own_share(*busiest) < usual + kToldShare) return text;
  return text + fmt::format(
                    " Rank {} worked for {}{}.", busiest->first, percent(own_share(*busiest)),
                    share_of(*busiest, Act::kData) >= kToldShare
                        ? fmt::format(", {} of it for its data",
                                      percent(share_of(*busiest, Act::kData) / own_share(*busiest)))
                        : "");
}

std::string waits_sentence(const RanksView& view) {
  if (view.waits.empty()) return {};
  const RankWait& first = view.waits.front();
  std::string text = fmt::format("At the end {} {} in {}", cluster::name_ranks(first.waiters),
                                 first.waiters.size() == 1 ? "stood" : "all stood", first.in);
  if (first.waiters.size() == 2)
    text = fmt::format("At the end {} stood in {}", cluster::name_ranks(first.waiters), first.in);
  if (first.missing.empty()) return text + ", to which all had come.";
  text += fmt::format(" and waited for {}", cluster::name_ranks(first.missing));
  if (!first.they.empty()) text += fmt::format(", which {}", first.they);
  return text + ".";
}

}  // namespace

const char* act_name(Act act) {
  switch (act) {
    case Act::kNone:
      break;
    case Act::kWorks:
      return "works";
    case Act::kData:
      return "data";
    case Act::kEvaluates:
      return "evaluates or saves";
    case Act::kWaits:
      return "waits";
    case Act::kStandsStill:
      return "stands still";
  }
  return "not there";
}

std::string ranks_verdict(const RanksView& view, const std::vector<rules::Finding>& findings) {
  std::string text = found_sentence(findings);
  for (const std::string& sentence : {time_sentence(view), waits_sentence(view)}) {
    if (!sentence.empty()) text += " " + sentence;
  }
  return text;
}

std::vector<RankStrip> folded_strips(const std::vector<RankStrip>& strips, size_t rows_max) {
  if (strips.size() <= rows_max) return strips;
  const double usual = median_own_share(strips);
  std::vector<std::pair<double, size_t>> odd;
  for (size_t i = 0; i < strips.size(); ++i) {
    if (const double much = oddness(strips[i], usual); much > 0) odd.emplace_back(-much, i);
  }
  std::sort(odd.begin(), odd.end());
  if (odd.size() > std::min(kOutliersMax, rows_max / 2)) {
    odd.resize(std::min(kOutliersMax, rows_max / 2));
  }
  std::set<size_t> alone;
  for (const auto& [much, i] : odd) alone.insert(i);
  std::vector<const RankStrip*> rest;
  for (size_t i = 0; i < strips.size(); ++i) {
    if (!alone.contains(i)) rest.push_back(&strips[i]);
  }
  std::vector<RankStrip> rows;
  for (const size_t i : alone) rows.push_back(strips[i]);
  const size_t room = rows_max - alone.size();
  for (size_t row = 0; row < room; ++row) {
    const size_t begin = row * rest.size() / room;
    const size_t end = (row + 1) * rest.size() / room;
    const std::vector<const RankStrip*> part(rest.begin() + static_cast<std::ptrdiff_t>(begin),
                                             rest.begin() + static_cast<std::ptrdiff_t>(end));
    if (!part.empty()) rows.push_back(merged(part));
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const RankStrip& a, const RankStrip& b) { return a.first < b.first; });
  return rows;
}

std::vector<Act> strip_columns(const RankStrip& strip, size_t columns) {
  std::vector<Act> shown;
  for (size_t column = 0; column < columns; ++column) {
    const size_t begin = column * kStripCells / columns;
    const size_t end = std::max(begin + 1, (column + 1) * kStripCells / columns);
    std::array<size_t, kActs> votes{};
    for (size_t cell = begin; cell < std::min(end, kStripCells); ++cell) {
      ++votes[static_cast<size_t>(strip.cells[cell])];
    }
    shown.push_back(most_of(votes));
  }
  return shown;
}

}  // namespace paramedic::cli
