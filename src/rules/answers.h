#pragma once
// What a classifier answered in a group of looks, as the adapter counted it. Plain values.

#include <cstdint>
#include <optional>
#include <vector>

#include "rules/finding.h"
#include "store/rows.h"

namespace paramedic::rules {

constexpr size_t kClassesMax = 1000;

// How many samples each class has.
class Counts {
 public:
  void add(const Counts& other);
  void push(int64_t count) { counts_.push_back(count); }

  [[nodiscard]] size_t size() const { return counts_.size(); }
  [[nodiscard]] int64_t operator[](size_t at) const { return at < size() ? counts_[at] : 0; }
  [[nodiscard]] int64_t sum() const;
  [[nodiscard]] int64_t most() const;
  [[nodiscard]] size_t most_frequent() const;
  // Of the most frequent class; 0 without samples.
  [[nodiscard]] double share() const;
  // In nats: the mean cross entropy of an answer that knows the shares of the classes alone.
  [[nodiscard]] double entropy() const;

 private:
  std::vector<int64_t> counts_;
};

struct Answers {
  int64_t at = -1;        // step of the fit
  bool weighted = false;  // the loss weighs classes
  std::optional<Where> where;
  Counts labels;
  Counts answers;
  Counts right;

  [[nodiscard]] int64_t samples() const { return answers.sum(); }
};

// The event "answers"; empty for others, and for one that is not as it should be.
std::optional<Answers> told_answers(const store::EventRow& row);

}  // namespace paramedic::rules
