#include "rules/answers.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "rules/told.h"

namespace paramedic::rules {

namespace {

std::optional<Counts> counts_of(const Json& fields, const char* key) {
  const auto list = fields.find(key);
  if (list == fields.end() || !list->is_array() || list->size() > kClassesMax) return std::nullopt;
  Counts counts;
  for (const Json& count : *list) {
    if (!count.is_number_integer() || count.get<int64_t>() < 0) return std::nullopt;
    counts.push(count.get<int64_t>());
  }
  return counts;
}

}  // namespace

void Counts::add(const Counts& other) {
  counts_.resize(std::max(size(), other.size()));
  for (size_t i = 0; i < other.size(); ++i) counts_[i] += other[i];
}

int64_t Counts::sum() const { return std::accumulate(counts_.begin(), counts_.end(), int64_t{0}); }

int64_t Counts::most() const {
  return counts_.empty() ? 0 : *std::max_element(counts_.begin(), counts_.end());
}

size_t Counts::most_frequent() const {
  return static_cast<size_t>(std::max_element(counts_.begin(), counts_.end()) - counts_.begin());
}

double Counts::share() const {
  const int64_t all = sum();
  return all == 0 ? 0 : static_cast<double>(most()) / static_cast<double>(all);
}

double Counts::entropy() const {
  const auto all = static_cast<double>(sum());
  double entropy = 0;
  for (const int64_t count : counts_) {
    const double share = static_cast<double>(count) / all;
    if (count > 0) entropy -= share * std::log(share);
  }
  return entropy;
}

std::optional<Answers> told_answers(const store::EventRow& row) {
  const std::optional<Json> fields = told(row, "answers");
  if (!fields) return std::nullopt;
  const std::optional<Counts> labels = counts_of(*fields, "labels");
  const std::optional<Counts> answers = counts_of(*fields, "answers");
  const std::optional<Counts> right = counts_of(*fields, "right");
  if (!labels || !answers || !right) return std::nullopt;
  Answers told;
  told.at = integer_or(*fields, "at", -1);
  told.weighted = bool_or(*fields, "weighted", false);
  told.where = told_where(*fields);
  told.labels = *labels;
  told.answers = *answers;
  told.right = *right;
  return told;
}

}  // namespace paramedic::rules
