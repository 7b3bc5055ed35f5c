#pragma once
// Keeps the measured cost of capturing under a share of the step time: a token bucket, in
// nanoseconds, that the steps fill and the samples empty. docs/design/0003-budget.md has the
// reasons. Not thread-safe; knows no clock: all times are told.

#include <array>
#include <cstdint>

#include "record/format.h"

namespace paramedic::probe {

// Lent at the start, so that a job of a few hundred short steps has samples from its first steps;
// as much as 1 % of one second. Paid back from then on.
constexpr double kInitialCreditNs = 10e6;
// Share of the budget that is aimed at: what a sample costs is known only once it was taken, and
// the calls into the library are not in what it measures.
constexpr double kAimedShare = 0.95;
// Share of what comes in that pays the loan back: with 1 % of step time the loan is gone after 4 s
// of training, from where on the total is within the budget.
constexpr double kRepaymentShare = 0.25;
// Share of what comes in that costs of every step leave for samples. Where these alone pass the
// budget (steps of a few 0.1 ms) nothing would ever be sampled again: blind and still over it.
constexpr double kSampledShare = 0.1;
// Weight of the newest measurement in the estimate of a kind's cost: about the last four count.
constexpr double kNewestWeight = 0.25;
// How much step time the bucket can hold the budget of: after a long stretch with nothing due, a
// burst takes at most that. Never less than one sample of each kind costs.
constexpr double kBucketStepTimeNs = 60e9;

class Budget {
 public:
  // `share` of step time that may be spent, such as 0.01; 0 or less: no limit.
  explicit Budget(double share);

  // Whether a sample of `kind` is covered. If so its estimated cost is set aside until the step
  // ends. `forced`: it is taken whatever is left. A kind that was never measured needs no more
  // than that nothing is owed.
  bool take(record::Kind kind, bool forced);

  // What a sample of `kind` was measured to cost in this step; adds up over calls.
  void spent(record::Kind kind, int64_t ns);
  // The step ended after `step_ns`, of which the caller spent `spent_ns`, in equal parts, for the
  // `kinds` (bits 1 << kind); without kinds it is a cost of every step.
  void step_done(int64_t step_ns, int64_t spent_ns, uint32_t kinds);

  // Cost so far in parts per million of step time; 0 before the first step.
  [[nodiscard]] uint32_t overhead_ppm() const;
  [[nodiscard]] double tokens_ns() const { return tokens_ns_; }
  [[nodiscard]] double estimate_ns(record::Kind kind) const {
    return kinds_[static_cast<size_t>(kind)].estimate_ns;
  }

 private:
  struct KindCost {
    bool measured = false;
    double estimate_ns = 0;
    double in_step_ns = 0;
  };
  void learn(KindCost& kind) const;

  double share_;
  double tokens_ns_;
  double loan_ns_;
  double reserved_ns_ = 0;
  double step_time_ns_ = 0;  // of all steps
  double spent_ns_ = 0;      // in all steps
  std::array<KindCost, record::kKindCount> kinds_;
};

}  // namespace paramedic::probe
