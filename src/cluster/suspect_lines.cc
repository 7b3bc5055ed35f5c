#include "cluster/suspect_lines.h"

#include <algorithm>

namespace paramedic::cluster {
namespace {

// How much speaks for a line, from the strongest on. Within each its kind decides.
constexpr int kKindsMax = 10;
constexpr int kAloneAndOdd = 5 * kKindsMax;  // the rank that differs is treated differently there
constexpr int kAlone = 4 * kKindsMax;        // one rank is treated differently there
constexpr int kOfRank = 3 * kKindsMax;       // for whom the condition holds is not known
constexpr int kRankNamed = 2 * kKindsMax;    // all come there; the rank takes part in what it does
constexpr int kByKind = 1 * kKindsMax;       // it does such things, on every rank

}  // namespace

void SuspectLines::add(int32_t rank, const std::vector<RankBranch>& branches) {
  for (const RankBranch& branch : branches) {
    const auto same = [&](const Line& line) {
      return line.branch.where.line == branch.where.line &&
             line.branch.where.file == branch.where.file;
    };
    auto found = std::find_if(lines_.begin(), lines_.end(), same);
    if (found == lines_.end()) {
      lines_.push_back({branch, {}, 0});
      found = std::prev(lines_.end());
    }
    found->taken[rank] = branch.taken;
  }
}

void SuspectLines::choose(const std::vector<std::string>& kinds) {
  for (Line& line : lines_) line.weight = weight_of(line, kinds);
  std::erase_if(lines_, [](const Line& line) { return line.weight == 0; });
  std::stable_sort(lines_.begin(), lines_.end(),
                   [](const Line& a, const Line& b) { return a.weight > b.weight; });
}

int SuspectLines::weight_of(const Line& line, const std::vector<std::string>& kinds) const {
  const auto does = [&](const std::string& kind) {
    const auto& all = line.branch.kinds;
    return std::find(all.begin(), all.end(), kind) != all.end();
  };
  const auto fits = std::find_if(kinds.begin(), kinds.end(), does);
  if (fits == kinds.end()) return 0;
  const int by_kind = kKindsMax - 1 - static_cast<int>(fits - kinds.begin());
  if (!line.branch.of_rank) return kByKind + by_kind;
  if (const auto rank = alone(line)) {
    if (!odd_) return kAlone + by_kind;
    return rank == odd_ ? kAloneAndOdd + by_kind : 0;
  }
  const bool known = std::all_of(line.taken.begin(), line.taken.end(),
                                 [](const auto& entry) { return entry.second.has_value(); });
  return (known ? kRankNamed : kOfRank) + by_kind;
}

std::optional<int32_t> SuspectLines::alone(const Line& line) const {
  std::map<bool, std::vector<int32_t>> by_answer;
  for (const int32_t rank : ranks_) {
    const auto found = line.taken.find(rank);
    if (found == line.taken.end() || !found->second) return std::nullopt;
    by_answer[*found->second].push_back(rank);
  }
  if (by_answer.size() != 2) return std::nullopt;
  // Of two ranks the one that does something is told.
  if (by_answer[true].size() == 1) return by_answer[true].front();
  if (by_answer[false].size() == 1) return by_answer[false].front();
  return std::nullopt;
}

std::optional<int32_t> SuspectLines::rank() const {
  return lines_.empty() || !lines_.front().branch.of_rank ? std::nullopt : alone(lines_.front());
}

std::optional<rules::Where> SuspectLines::best(const rules::Where* before) const {
  for (const Line& line : lines_) {
    const rules::Where& where = line.branch.where;
    const bool later = before != nullptr && before->line != 0 && where.file == before->file &&
                       where.function == before->function && where.line > before->line;
    if (!later) return where;
  }
  return std::nullopt;
}

}  // namespace paramedic::cluster
