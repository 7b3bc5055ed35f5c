#include "probe/budget.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace paramedic::probe {

Budget::Budget(double share)
    : share_(std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 0.0),
      tokens_ns_(kInitialCreditNs),
      loan_ns_(kInitialCreditNs) {}

bool Budget::take(record::Kind kind, bool forced) {
  const KindCost& cost = kinds_[static_cast<size_t>(kind)];
  const double left_ns = tokens_ns_ - reserved_ns_;
  if (share_ > 0 && !forced && (left_ns < 0 || left_ns < cost.estimate_ns)) return false;
  reserved_ns_ += cost.estimate_ns;
  return true;
}

void Budget::spent(record::Kind kind, int64_t ns) {
  kinds_[static_cast<size_t>(kind)].in_step_ns += static_cast<double>(std::max<int64_t>(ns, 0));
}

void Budget::learn(KindCost& kind) const {
  if (kind.in_step_ns <= 0) return;
  kind.estimate_ns += (kind.measured ? kNewestWeight : 1.0) * (kind.in_step_ns - kind.estimate_ns);
  kind.measured = true;
}

void Budget::step_done(int64_t step_ns, int64_t spent_ns, uint32_t kinds) {
  const auto caller_ns = static_cast<double>(std::max<int64_t>(spent_ns, 0));
  kinds &= (1U << record::kKindCount) - 1;
  const double common_ns = kinds == 0 ? caller_ns : 0;
  double cost_ns = 0;
  double estimates_ns = 0;
  for (uint32_t i = 0; i < record::kKindCount; i++) {
    KindCost& kind = kinds_[i];
    if ((kinds >> i & 1) != 0) kind.in_step_ns += caller_ns / std::popcount(kinds);
    cost_ns += kind.in_step_ns;
    learn(kind);
    kind.in_step_ns = 0;
    estimates_ns += kind.estimate_ns;
  }
  const auto time_ns = static_cast<double>(std::max<int64_t>(step_ns, 0));
  step_time_ns_ += time_ns;
  spent_ns_ += cost_ns + common_ns;

  const double income_ns = kAimedShare * share_ * time_ns;
  const double repaid_ns = std::min(loan_ns_, kRepaymentShare * income_ns);
  cost_ns += std::min(common_ns, (1 - kSampledShare) * income_ns - repaid_ns);
  loan_ns_ -= repaid_ns;
  const double limit_ns = std::max(share_ * kBucketStepTimeNs, estimates_ns) + loan_ns_;
  tokens_ns_ = std::min(tokens_ns_ + income_ns - repaid_ns - cost_ns, limit_ns);
  reserved_ns_ = 0;
}

uint32_t Budget::overhead_ppm() const {
  if (step_time_ns_ <= 0) return 0;
  return static_cast<uint32_t>(std::min(1e6 * spent_ns_ / step_time_ns_, 4e9));
}

}  // namespace paramedic::probe
