// Where the first value that is no number came from.

#include <fmt/format.h>

#include <map>
#include <tuple>
#include <utility>

#include "base/json.h"
#include "rules/rule.h"
#include "rules/told.h"

namespace paramedic::rules {

namespace {

// A loss that is not finite once may be a batch that the script skips; twice in a row it is lost.
constexpr int kLostSteps = 2;
// A loss scaler meets overflows by design and needs some steps to find its scale.
constexpr int kLostStepsAmp = 12;
// A script that looks at its gradients and leaves bad batches out goes on with finite losses.
constexpr int kCalmSteps = 20;

struct Suspect {
  std::string tensor;
  store::Kind kind = store::Kind::kOther;
  int64_t step = -1;
  int64_t order = INT64_MAX;  // in the forward pass
  stats::TensorStats stats;
};

const char* kind_word(store::Kind kind) {
  switch (kind) {
    case store::Kind::kWeight:
      return "weight";
    case store::Kind::kGradient:
      return "gradient";
    case store::Kind::kActivation:
      return "activation";
    default:
      return "loss";
  }
}

class NanOrigin : public Rule {
 public:
  using Rule::Rule;

  void on_stats(const store::StatsRow& row) override {
    const store::Kind kind = row.tensor->kind;
    if (done_) {
      spoilt_ = spoilt_ || (kind == store::Kind::kWeight && row.stats.non_finite() > 0);
      return;
    }
    if (kind == store::Kind::kActivation && row.origin.mode != store::Mode::kTrain) return;
    const auto key = std::pair(row.tensor->name, kind);
    if (row.stats.non_finite() == 0) {
      // Whoever recovers was no origin.
      if (suspects_.erase(key) > 0 && suspects_.empty()) lost_weights_ = false;
      return;
    }
    // Masks of attention are -Inf on purpose, and nothing but that.
    const bool mask =
        kind == store::Kind::kActivation && row.stats.nan == 0 && row.stats.positive_inf == 0;
    if (mask || suspects_.size() >= kSuspectsMax || suspects_.contains(key)) return;
    if (kind == store::Kind::kWeight) lost_weights_ = true;
    Suspect suspect;
    suspect.tensor = row.tensor->name;
    suspect.kind = kind;
    suspect.step = row.origin.step;
    suspect.stats = row.stats;
    const std::string module = kind == store::Kind::kActivation
                                   ? row.tensor->name
                                   : facts().module_name_of(row.tensor->name);
    if (const ModuleFact* fact = facts().module(module)) suspect.order = fact->order;
    suspects_.emplace(key, std::move(suspect));
  }

  void on_event(const store::EventRow& row) override {
    if (done_) return;
    std::optional<Json> fields = told(row, "nan_origin");
    if (!fields) return;
    told_ = std::move(fields);
    told_step_ = row.origin.step;
  }

  void on_step(int64_t step) override {
    const int lost = facts().lost_steps();
    if (done_) {
      calm_steps_ += lost == 0 ? 1 : 0;
      if (calm_steps_ >= kCalmSteps && lost == 0 && !spoilt_) take_back(step);
      return;
    }
    if (lost > 0 && first_lost_step_ < 0) first_lost_step_ = step;
    if (lost == 0) first_lost_step_ = -1;
    lost_once_ = lost_once_ || lost > 0;
    const int needed = facts().amp() ? kLostStepsAmp : kLostSteps;
    if (lost >= needed || (lost_weights_ && lost > 0)) conclude();
  }

  void finish() override {
    // The script may have ended because of it.
    if (done_) return;
    if (first_lost_step_ >= 0 && (!facts().amp() || lost_weights_)) {
      conclude();
    } else if (told_ && !facts().amp() && lost_once_) {
      note();
    }
  }

 private:
  static constexpr size_t kSuspectsMax = 10'000;

  // The earliest step counts; within it what the forward pass reaches first.
  [[nodiscard]] const Suspect* earliest() const {
    const auto rank = [](const Suspect& s) {
      // Forward before backward before update.
      const int phase = s.kind == store::Kind::kActivation ? 0
                        : s.kind == store::Kind::kGradient ? 1
                                                           : 2;
      // The backward pass reaches late layers first.
      const int64_t order =
          s.kind == store::Kind::kGradient && s.order != INT64_MAX ? -s.order : s.order;
      return std::tuple(s.step, phase, order);
    };
    const Suspect* best = nullptr;
    for (const auto& [key, suspect] : suspects_) {
      if (best == nullptr || rank(suspect) < rank(*best)) best = &suspect;
    }
    return best;
  }

  void conclude() {
    done_ = true;
    Finding finding;
    finding.severity = Severity::kError;
    finding.step = first_lost_step_;
    if (told_) {
      from_event(finding);
    } else {
      from_rows(finding);
    }
    for (const auto& [key, suspect] : suspects_) {
      if (finding.tensors.size() >= kTensorsPerFindingMax) break;
      if (finding.tensors.empty() || finding.tensors.back() != key.first) {
        finding.tensors.push_back(key.first);
      }
    }
    finding.evidence.push_back(
        fmt::format("the loss is not finite since step {}", first_lost_step_));
    finding_ = finding;
    report(std::move(finding));
  }

  // One batch gave it, and the job left it behind.
  void note() {
    Finding finding;
    finding.severity = Severity::kInfo;
    finding.step = told_step_;
    from_event(finding);
    finding.message += "; the losses after it are finite";
    report(std::move(finding));
  }

  // The weights were never touched by it, or the loss could not be finite again.
  void take_back(int64_t step) {
    if (finding_.severity == Severity::kInfo) return;
    finding_.severity = Severity::kInfo;
    finding_.message += fmt::format(
        "; but the weights stay finite, and so is the loss in {} later steps (until {})",
        calm_steps_, step);
    report(finding_);
  }

  void from_event(Finding& finding) {
    const Json& told = *told_;
    if (told_step_ >= 0) finding.step = std::min(finding.step.value_or(told_step_), told_step_);
    if (bool_or(told, "received", false)) {
      received(finding);
      return;
    }
    const std::string module = string_or(told, "module", "");
    const std::string operation = string_or(told, "operation", "");
    const std::string expression = string_or(told, "expression", "");
    finding.kind = string_or(told, "kind", "activation");
    finding.confidence = 0.97;
    if (!module.empty()) finding.tensor = module;
    finding.where = told_where(told);
    finding.message = fmt::format("the first value that is not finite comes from {}{}{}",
                                  operation.empty() ? "an operation" : operation,
                                  expression.empty() ? "" : " in `" + expression + "`",
                                  module.empty() ? "" : " in module " + module);
    if (const auto lines = told.find("evidence"); lines != told.end() && lines->is_array()) {
      for (const Json& line : *lines) {
        if (finding.evidence.size() + 1 >= kEvidencePerFindingMax) break;
        if (line.is_string()) finding.evidence.push_back(line.get<std::string>());
      }
    }
  }

  // The fault is another rank's: nan_source_rank tells whose.
  static void received(Finding& finding) {
    finding.severity = Severity::kInfo;
    finding.kind = "gradient";
    finding.confidence = 0.9;
    finding.message =
        "values that are not finite came from another rank: repeated without the others, the "
        "iteration of this rank is finite";
  }

  void from_rows(Finding& finding) {
    const Suspect* first = earliest();
    finding.confidence = 0.9;
    // Tensors are sampled: those seen later than the loss are its victims.
    if (first == nullptr || first->step > first_lost_step_) {
      loss_alone(finding);
      return;
    }
    finding.step = first->step;
    finding.tensor = first->tensor;
    finding.kind = kind_word(first->kind);
    const std::string module = first->kind == store::Kind::kActivation
                                   ? first->tensor
                                   : facts().module_name_of(first->tensor);
    finding.where = facts().made(module);
    finding.message = fmt::format("the {} of {} is the first that is not finite (step {})",
                                  kind_word(first->kind), first->tensor, first->step);
    finding.evidence.push_back(fmt::format("{} of its {} elements are NaN, {} are infinite",
                                           first->stats.nan, first->stats.count,
                                           first->stats.positive_inf + first->stats.negative_inf));
  }

  void loss_alone(Finding& finding) {
    finding.kind = "loss";
    for (const auto& [name, loss] : facts().losses()) {
      if (loss.track.non_finite_steps() == 0) continue;
      finding.where = loss.where;
      finding.message = fmt::format(
          "the loss ({}:{}) is the first that is not finite (step {}); no earlier sample of a "
          "tensor shows where it began",
          loss.where.file, loss.where.line, first_lost_step_);
      return;
    }
  }

  bool done_ = false;
  // Since done_: steps with a finite loss; weights that are not.
  int calm_steps_ = 0;
  bool spoilt_ = false;
  Finding finding_;
  bool lost_weights_ = false;
  bool lost_once_ = false;  // a loss was not finite
  int64_t first_lost_step_ = -1;
  std::optional<Json> told_;
  int64_t told_step_ = -1;
  std::map<std::pair<std::string, store::Kind>, Suspect> suspects_;
};

}  // namespace

RuleEntry nan_origin_rule() {
  return {{"nan_origin",
           Severity::kError,
           "The first NaN or Inf, and what made it",
           "The loss is not finite in several steps in a row, or weights are lost. The origin is "
           "the operation that the search in the process names, else the earliest sampled tensor "
           "that is not finite: forward before backward, early layers first. Overflows that a "
           "loss scaler skips and masks of -Inf are none; bad batches that leave the "
           "weights finite, and the loss in 20 later steps, are taken back to a note, as is a "
           "single one.",
           "guard the operation named (use the library's stable form, clamp its input, add an "
           "epsilon), then look at what drives its input so far",
           {{"lost_steps", kLostSteps, 1, 1000, "steps in a row whose loss is not finite"},
            {"lost_steps_amp", kLostStepsAmp, 1, 1000, "the same under a loss scaler"}}},
          &make_rule<NanOrigin>};
}

}  // namespace paramedic::rules
