// A job that mostly waits for its next batch.

#include <fmt/format.h>

#include <algorithm>

#include "base/median.h"
#include "rules/rule.h"

namespace paramedic::rules {

namespace {

constexpr double kShare = 0.75;  // of a step
// Small models wait for the loader as well, and are done all the same.
constexpr double kWaitMs = 5;
constexpr size_t kSamples = 10;
constexpr size_t kSamplesMax = 200;  // the newest are judged

class DataloaderBottleneck : public Rule {
 public:
  using Rule::Rule;

  void on_scalar(const store::ScalarRow& row) override {
    if (*row.name == "phase/data_ms") {
      data_ms_ = row.value;
    } else if (*row.name == "phase/validation_ms" || *row.name == "phase/checkpoint_ms") {
      seldom_ = true;
    } else if (*row.name == "step_ms") {
      step_ms_ = row.value;
    }
  }

  void on_step(int64_t step) override {
    if (step_ms_ > 0 && data_ms_ >= 0 && !seldom_) {
      if (waits_.size() == kSamplesMax) {
        waits_.erase(waits_.begin());
        shares_.erase(shares_.begin());
      }
      waits_.push_back(data_ms_);
      shares_.push_back(data_ms_ / step_ms_);
      judge(step);
    }
    data_ms_ = step_ms_ = -1;
    seldom_ = false;
  }

 private:
  void judge(int64_t step) {
    if (waits_.size() < kSamples) return;
    const double wait_ms = median_of(waits_);
    const double share = median_of(shares_);
    if (wait_ms < kWaitMs || share < kShare) {
      if (told_ && told_->severity != Severity::kInfo) {
        told_->severity = Severity::kInfo;
        told_->last_step = step;
        told_->message += "; since then it waits less";
        report(*told_);
      }
      return;
    }
    Finding finding;
    finding.severity = Severity::kWarning;
    finding.step = first_step_ >= 0 ? first_step_ : first_step_ = step;
    finding.kind = "scalar";
    finding.tensor = "phase/data_ms";
    finding.value = share;
    finding.threshold = kShare;
    finding.confidence = 0.85;
    finding.message = fmt::format(
        "{:.0f} % of a step is waiting for the next batch: {:.3g} ms in the median of {} samples",
        100 * share, wait_ms, waits_.size());
    told_ = finding;
    report(std::move(finding));
  }

  double data_ms_ = -1;
  double step_ms_ = -1;
  bool seldom_ = false;
  int64_t first_step_ = -1;
  std::vector<double> waits_;
  std::vector<double> shares_;
  std::optional<Finding> told_;
};

}  // namespace

RuleEntry dataloader_bottleneck_rule() {
  return {{"dataloader_bottleneck",
           Severity::kWarning,
           "The job waits for its data",
           "In the median of at least ten sampled steps more than three quarters of the step, and "
           "more than 5 ms, pass in the loader. Steps with a validation or a checkpoint are left "
           "out.",
           "use more workers, read or decode each sample once, and keep the work of __getitem__ "
           "small",
           {{"share", kShare, 0, 1, "of a step"},
            {"wait_ms", kWaitMs, 0, 1e9, "milliseconds"},
            {"samples", static_cast<double>(kSamples), 1, 1e9, "sampled steps at least"}}},
          &make_rule<DataloaderBottleneck>};
}

}  // namespace paramedic::rules
