// A loss that was learnt jumps far above where it began, and comes back, again and again.

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "rules/rule.h"

namespace paramedic::rules {

namespace {

constexpr double kCalm = 0.7;       // of the first losses: what is below has been learnt
constexpr int64_t kCalmSteps = 20;  // in a row before a jump
constexpr double kClasses = 5;      // a jump, over the first losses
constexpr double kDistances = 50;   // errors of single samples have long tails
constexpr int64_t kSteps = 10;      // that a jump lasts at most
constexpr int kSpikes = 3;

struct Track {
  int64_t calm = 0;
  int64_t jumped_at = -1;
  double highest = 0;
  int spikes = 0;
  int64_t first_step = -1;
  int64_t last_step = -1;
};

class LossSpike : public Rule {
 public:
  using Rule::Rule;

  void on_scalar(const store::ScalarRow& row) override {
    if (!row.name->starts_with("loss/") || facts().amp()) return;
    const auto found = facts().losses().find(*row.name);
    if (found == facts().losses().end() || &found->second != facts().only_loss()) return;
    const LossKind kind = loss_kind(found->second.class_name);
    if (kind == LossKind::kOther || !std::isfinite(row.value)) return;
    const double first = found->second.track.head_level();
    const double limit = (kind == LossKind::kDistance ? kDistances : kClasses) * first;
    Track& track = tracks_[*row.name];
    const int64_t step = row.origin.step;
    if (first <= 0) return;
    if (row.value < kCalm * first) {
      came_back(track, step, found->second, first);
      ++track.calm;
    } else if (row.value > limit && track.jumped_at < 0 && track.calm >= kCalmSteps) {
      track.jumped_at = step;
      track.highest = std::max(track.highest, row.value);
      track.calm = 0;
    } else if (track.jumped_at < 0) {
      track.calm = 0;
    }
  }

 private:
  void came_back(Track& track, int64_t step, const LossFact& loss, double first) {
    const int64_t jumped_at = track.jumped_at;
    track.jumped_at = -1;
    if (jumped_at < 0 || step - jumped_at > kSteps) return;
    ++track.spikes;
    if (track.first_step < 0) track.first_step = jumped_at;
    track.last_step = jumped_at;
    if (track.spikes < kSpikes) return;
    Finding finding;
    finding.severity = Severity::kWarning;
    finding.step = track.first_step;
    finding.last_step = track.last_step;
    finding.kind = "loss";
    finding.value = track.highest;
    finding.threshold = first;
    finding.confidence = 0.85;
    finding.where = loss.where;
    finding.message = fmt::format(
        "the loss began at {:.3g} and was learnt, but jumped up to {:.3g} and came back, {} times",
        first, track.highest, track.spikes);
    report(std::move(finding));
  }

  std::map<std::string, Track> tracks_;
};

}  // namespace

RuleEntry loss_spike_rule() {
  return {
      {"loss_spike",
       Severity::kWarning,
       "The loss jumps and comes back",
       "Three times a loss that was below 0.7 of its first values for 20 steps jumps above five "
       "times them (distances: fifty times), and is back within ten steps. Not judged: several "
       "losses or optimizers in turn, losses of other kinds, loss scalers.",
       "look at the batches of these steps: samples out of all scale, or a rate that is a "
       "little too high; clip gradients",
       {{"spikes", kSpikes, 1, 1000, "jumps"},
        {"height", kClasses, 1, 1e6, "of a jump, over the first losses"},
        {"height_distances", kDistances, 1, 1e6, "the same of distances"}}},
      &make_rule<LossSpike>};
}

}  // namespace paramedic::rules
