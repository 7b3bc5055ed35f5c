#include "cluster/explained.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace paramedic::cluster {
namespace {

// Ranks and fits of which either is kept; further ones are handed on as they are.
constexpr size_t kKeptMax = 10'000;

bool is_cause(const rules::Finding& finding) {
  return (finding.id == "nan_source_rank" && finding.rank) || finding.id == "input_bottleneck" ||
         finding.id == "straggler";
}

bool can_be_explained(const rules::Finding& finding) {
  return finding.rank && (finding.id == "nan_origin" || finding.id == "dataloader_bottleneck");
}

// Whether `cause`, of the job, says what lies behind `finding`, of one rank.
bool explains(const rules::Finding& cause, const rules::Finding& finding) {
  if (finding.id == "nan_origin") {
    // An earlier one belongs to something else, such as a fit before this one.
    return cause.id == "nan_source_rank" && finding.rank != cause.rank &&
           finding.step.value_or(0) >= cause.step.value_or(0);
  }
  return cause.id == "input_bottleneck" || (cause.id == "straggler" && finding.rank == cause.rank);
}

rules::Finding as_info(const rules::Finding& cause, rules::Finding finding) {
  finding.severity = rules::Severity::kInfo;
  const std::string behind = cause.id == "nan_source_rank"
                                 ? fmt::format("came from rank {}", *cause.rank)
                                 : fmt::format("part of {}", cause.id);
  finding.message = fmt::format("{}: {}", behind, finding.message);
  return finding;
}

}  // namespace

void Explained::on_finding(const std::string& key, const rules::Finding& finding) {
  if (is_cause(finding)) {
    sink_.on_finding(key, finding);
    add_cause(key, finding);
    return;
  }
  const bool is_loud = can_be_explained(finding) && finding.severity != rules::Severity::kInfo;
  const rules::Finding* cause = is_loud ? cause_of(finding) : nullptr;
  sink_.on_finding(key, cause == nullptr ? finding : as_info(*cause, finding));
  if (is_loud && cause == nullptr && loud_.size() < kKeptMax) {
    loud_.insert_or_assign(key, finding);
  } else {
    loud_.erase(key);
  }
}

const rules::Finding* Explained::cause_of(const rules::Finding& finding) const {
  const auto cause = std::find_if(causes_.begin(), causes_.end(), [&](const auto& known) {
    return explains(known.second, finding);
  });
  return cause == causes_.end() ? nullptr : &cause->second;
}

void Explained::add_cause(const std::string& key, const rules::Finding& finding) {
  if (finding.severity == rules::Severity::kInfo) {  // it was taken back
    causes_.erase(key);
    return;
  }
  if (causes_.size() < kKeptMax) causes_.insert_or_assign(key, finding);
  for (auto told = loud_.begin(); told != loud_.end();) {
    if (!explains(finding, told->second)) {
      ++told;
      continue;
    }
    sink_.on_finding(told->first, as_info(finding, std::move(told->second)));
    told = loud_.erase(told);
  }
}

}  // namespace paramedic::cluster
