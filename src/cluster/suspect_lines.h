#pragma once
// Lines of the job that treat ranks differently, and the one among them that fits what is wrong.
// Plain value; the ranks' branches are copied.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cluster/replica_rows.h"

namespace paramedic::cluster {

class SuspectLines {
 public:
  // `odd`: the rank that is known to differ, if any.
  SuspectLines(std::set<int32_t> ranks, std::optional<int32_t> odd)
      : ranks_(std::move(ranks)), odd_(odd) {}

  void add(int32_t rank, const std::vector<RankBranch>& branches);
  // Keeps lines that do one of `kinds`, in the order of their likelihood: how much a line tells
  // ranks apart, then the order of `kinds`.
  void choose(const std::vector<std::string>& kinds);
  // The rank that alone comes to one of the lines, or alone does not.
  [[nodiscard]] std::optional<int32_t> rank() const;
  // The likeliest line; none when nothing speaks for one. With `before` only lines of that
  // function and file that stand before it, or of other functions, are taken.
  [[nodiscard]] std::optional<rules::Where> best(const rules::Where* before) const;

 private:
  struct Line {
    RankBranch branch;
    std::map<int32_t, std::optional<bool>> taken;  // by rank
    int weight = 0;
  };
  [[nodiscard]] std::optional<int32_t> alone(const Line& line) const;
  [[nodiscard]] int weight_of(const Line& line, const std::vector<std::string>& kinds) const;

  std::set<int32_t> ranks_;
  std::optional<int32_t> odd_;
  std::vector<Line> lines_;
};

}  // namespace paramedic::cluster
