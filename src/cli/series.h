#pragma once
// Numbers along the steps of a run, folded into a bounded number of bins while they stream by:
// when a step no longer fits, neighbouring bins are merged and each is twice as wide. Minimum,
// maximum and NaN survive folding. Plain values.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace paramedic::cli {

// Bin needs `void merge(const Bin&)` and `bool empty() const`.
template <typename Bin, int64_t kCapacity>
class Folded {
 public:
  // The bin of `step`. Steps below the first one ever seen (a rank that started earlier) share
  // its bin.
  Bin& at(int64_t step) {
    if (bins_.empty()) first_ = step;
    int64_t index = std::max<int64_t>(0, step - first_) >> shift_;
    while (index >= kCapacity) {
      fold();
      index >>= 1;
    }
    if (index >= static_cast<int64_t>(bins_.size())) bins_.resize(index + 1);
    return bins_[index];
  }
  [[nodiscard]] const std::vector<Bin>& bins() const { return bins_; }

 private:
  void fold() {
    for (size_t i = 0; i < bins_.size(); i += 2) {
      Bin merged = bins_[i];
      if (i + 1 < bins_.size()) merged.merge(bins_[i + 1]);
      bins_[i / 2] = merged;
    }
    bins_.resize((bins_.size() + 1) / 2);
    shift_++;
  }

  std::vector<Bin> bins_;
  int64_t first_ = 0;
  int shift_ = 0;
};

// Steps that something was seen at, as [first, last].
struct StepRange {
  int64_t first = std::numeric_limits<int64_t>::max();
  int64_t last = std::numeric_limits<int64_t>::min();
  [[nodiscard]] bool empty() const { return first > last; }
  void add(int64_t step) {
    first = std::min(first, step);
    last = std::max(last, step);
  }
  void merge(const StepRange& other) {
    first = std::min(first, other.first);
    last = std::max(last, other.last);
  }
  [[nodiscard]] double middle() const { return (double(first) + double(last)) / 2; }
};

struct ValueBin {
  StepRange steps;
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  double sum = 0;  // of the finite values
  uint64_t finite = 0;
  uint64_t non_finite = 0;

  [[nodiscard]] bool empty() const { return steps.empty(); }
  [[nodiscard]] double mean() const { return sum / double(finite); }
  void add(int64_t step, double value) {
    steps.add(step);
    if (!std::isfinite(value)) {
      non_finite++;
      return;
    }
    finite++;
    sum += value;
    min = std::min(min, value);
    max = std::max(max, value);
  }
  void merge(const ValueBin& other) {
    steps.merge(other.steps);
    min = std::min(min, other.min);
    max = std::max(max, other.max);
    sum += other.sum;
    finite += other.finite;
    non_finite += other.non_finite;
  }
};

constexpr int64_t kSeriesBins = 512;

// One named curve.
struct Series {
  std::string name;  // what the curve is: "train.py:41", "SGD/0"
  std::string mode = "train";
  Folded<ValueBin, kSeriesBins> curve;
  StepRange steps;
  uint64_t count = 0;
  double first = std::numeric_limits<double>::quiet_NaN();
  double last = std::numeric_limits<double>::quiet_NaN();
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  int64_t first_non_finite = -1;  // step; -1 = all were finite

  void add(int64_t step, double value) {
    if (step < 0) return;
    curve.at(step).add(step, value);
    steps.add(step);
    if (count++ == 0) first = value;
    last = value;
    if (!std::isfinite(value)) {
      if (first_non_finite < 0 || step < first_non_finite) first_non_finite = step;
      return;
    }
    min = std::min(min, value);
    max = std::max(max, value);
  }
};

// The gradients of one layer over some steps.
struct GradientBin {
  StepRange steps;
  double sum_squares = 0;
  uint64_t finite = 0;      // elements
  uint64_t non_finite = 0;  // elements

  [[nodiscard]] bool empty() const { return steps.empty(); }
  [[nodiscard]] double rms() const { return std::sqrt(sum_squares / double(finite)); }
  void add(int64_t step, double squares, uint64_t finite_elements, uint64_t other_elements) {
    steps.add(step);
    sum_squares += squares;
    finite += finite_elements;
    non_finite += other_elements;
  }
  void merge(const GradientBin& other) {
    steps.merge(other.steps);
    sum_squares += other.sum_squares;
    finite += other.finite;
    non_finite += other.non_finite;
  }
};

constexpr int64_t kLayerBins = 256;
using GradientCurve = Folded<GradientBin, kLayerBins>;

}  // namespace paramedic::cli
