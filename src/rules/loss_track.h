#pragma once
// The history of one loss in bounded memory, and whether it falls. Plain value; one thread.
//
// The whole run is kept as at most kBinsMax means of equally many steps; when they are full,
// neighbours are merged. So a run of any length is seen whole, and coarser the longer it is.

#include <cstdint>
#include <optional>
#include <vector>

namespace paramedic::rules {

enum class Trend : uint8_t {
  kUnknown,  // too short, too noisy, or changing sign as objectives of games do
  kFalling,
  kFlat,
  kRising,
};

struct LossVerdict {
  Trend trend = Trend::kUnknown;
  int64_t steps = 0;
  double start = 0;   // the very first: a loss may blow up within the head
  double first = 0;   // median of the first kHeadSteps steps
  double recent = 0;  // median of the last quarter
  double middle = 0;  // median of the second quarter
  double noise = 0;   // standard deviation of one step around its neighbours
  double error = 0;   // standard error of first - recent
  double fallen = 0;  // (first - recent) / larger of both magnitudes

  // What to tell a person: the median, or the very first loss where the next ones blew up, whose
  // median would make any end look like a success.
  [[nodiscard]] double told_start() const { return start > 0 && first > 2 * start ? start : first; }
};

class LossTrack {
 public:
  static constexpr size_t kBinsMax = 128;
  static constexpr size_t kHeadSteps = 8;
  // Below this many steps no trend is claimed.
  static constexpr int64_t kStepsMin = 60;
  // A change below this share of the level is none (smdebug: 0.1 % over 10 steps, too fine for a
  // noisy loss).
  static constexpr double kChangeMin = 0.03;
  // No loss that is being learnt is so many times its first value; games' values start near 0.
  static constexpr double kDivergedFactor = 1e6;
  static constexpr double kDivergedStartMin = 1e-3;

  // The loss of one backward(); calls of one step are averaged.
  void add(int64_t step, double value);
  // The trend up to now; cheap, computed once a step.
  [[nodiscard]] const LossVerdict& verdict() const;

  [[nodiscard]] int64_t first_step() const { return first_step_; }
  [[nodiscard]] int64_t last_step() const { return step_; }
  // Median of the first kHeadSteps finite steps, of fewer while there are no more; 0 with none.
  [[nodiscard]] double head_level() const;
  // The newest step's mean so far; may be NaN or infinite. Empty before the first.
  [[nodiscard]] std::optional<double> newest() const;
  // Steps in a row, up to the newest closed one, whose finite loss is out of all measure.
  [[nodiscard]] int diverged_steps() const { return diverged_steps_; }
  // Steps in a row, up to the newest, whose loss is not finite.
  [[nodiscard]] int non_finite_steps() const;

 private:
  struct Bin {
    int64_t steps = 0;
    double mean = 0;
  };
  void close_step();
  void merge_pairs();
  [[nodiscard]] LossVerdict judge() const;

  int64_t first_step_ = -1;
  int64_t step_ = -1;
  int64_t calls_ = 0;   // of the open step
  double sum_ = 0;      // of the open step
  int lost_steps_ = 0;  // closed ones in a row that are not finite
  int diverged_steps_ = 0;
  int64_t steps_ = 0;  // closed and finite
  int64_t bin_steps_ = 1;
  std::vector<double> head_;
  std::vector<Bin> bins_;
  mutable LossVerdict verdict_;
  mutable int64_t judged_steps_ = -1;
};

}  // namespace paramedic::rules
