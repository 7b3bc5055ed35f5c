#include "cluster/patience.h"

#include <algorithm>

namespace paramedic::cluster {
namespace {

// A place that came back is given this multiple of what it took.
constexpr double kHistoryFactor = 4;

struct Rule {
  double patience_s;
  double start_patience_s;  // before the first collective has returned: imports, data, compilers
  double confidence;
};

// A hang is to be named within ten seconds, so what looks like one from outside and inside has
// less. What moves has minutes: that it lasts is no proof.
Rule rule_of(Doing doing) {
  switch (doing) {
    case Doing::kGone:
      return {2, 2, 0.95};
    case Doing::kStopped:
      return {4, 4, 0.95};
    case Doing::kDeadlock:
      return {4.5, 4.5, 0.95};
    case Doing::kElsewhere:
      return {6, 6, 0.9};
    case Doing::kIdle:
      return {6.5, 7.5, 0.85};
    case Doing::kBusy:
      return {7.5, 60, 0.7};
    case Doing::kMoving:
      return {90, 300, 0.5};
    case Doing::kWorking:
      return {600, 900, 0.4};
    case Doing::kUnknown:
      return {8.5, 30, 0.6};
    case Doing::kInside:
      return {8, 20, 0.75};
  }
  return {600, 900, 0};
}

}  // namespace

Judgement judge(const Pause& pause) {
  const Rule rule = rule_of(pause.doing);
  // Who is gone or deadlocked does not come back, whatever happened there before.
  const bool is_final = pause.doing == Doing::kGone || pause.doing == Doing::kDeadlock;
  const double known_s = is_final ? 0 : kHistoryFactor * pause.longest_before_s;
  Judgement judgement;
  judgement.patience_s =
      std::max(pause.is_start ? rule.start_patience_s : rule.patience_s, known_s);
  judgement.is_hang = pause.waited_s >= judgement.patience_s;
  judgement.confidence = rule.confidence;
  return judgement;
}

}  // namespace paramedic::cluster
