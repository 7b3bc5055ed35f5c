#include "cluster/explained.h"

#include <fmt/format.h>

#include <utility>

namespace paramedic::cluster {
namespace {

// Ranks and fits of which it is kept that they met a NaN; further ones are handed on as they are.
constexpr size_t kNanToldMax = 10'000;

}  // namespace

void Explained::on_finding(const std::string& key, const rules::Finding& finding) {
  const bool is_nan =
      finding.id == "nan_origin" && finding.severity != rules::Severity::kInfo && finding.rank;
  if (is_nan && came_from_another(finding)) {
    sink_.on_finding(key, as_info(finding));
    return;
  }
  if (is_nan && nan_told_.size() < kNanToldMax) nan_told_.insert_or_assign(key, finding);
  sink_.on_finding(key, finding);
  if (finding.id != "nan_source_rank" || !finding.rank) return;
  source_ = finding;
  for (auto told = nan_told_.begin(); told != nan_told_.end();) {
    if (!came_from_another(told->second)) {
      ++told;
      continue;
    }
    sink_.on_finding(told->first, as_info(std::move(told->second)));
    told = nan_told_.erase(told);
  }
}

// An earlier one belongs to something else, such as a fit before this one.
bool Explained::came_from_another(const rules::Finding& finding) const {
  return source_ && finding.rank != source_->rank &&
         finding.step.value_or(0) >= source_->step.value_or(0);
}

rules::Finding Explained::as_info(rules::Finding finding) const {
  finding.severity = rules::Severity::kInfo;
  finding.message = fmt::format("came from rank {}: {}", *source_->rank, finding.message);
  return finding;
}

}  // namespace paramedic::cluster
