#pragma once
// What all rules want to know of one fit of one process: its modules, parameters and optimizers,
// its losses and learning rates so far, and whether it learns. Filled by the engine before the
// rules see a row. Bounded: at most kTensorsMax names of each kind.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rules/finding.h"
#include "rules/loss_track.h"
#include "store/rows.h"

namespace paramedic::rules {

struct ModuleFact {
  std::string class_name;
  Where made;           // line 0 = unknown
  int64_t order = -1;   // place in the forward pass; -1 unknown
  bool loaded = false;  // its weights came from a file or another model
  bool called = true;   // in the first forward pass
};

struct ParameterFact {
  std::string module;
  std::vector<int64_t> shape;
  bool trainable = true;  // requires_grad
};

struct OptimizerFact {
  std::string class_name;
  Where made;           // line 0 = unknown
  double momentum = 0;  // of the first group
};

struct LearningRate {
  double newest = 0;
  double low = 0;
  double high = 0;
  int64_t first_step = -1;
  // The last step at which it rose by more than a hundredth: warm-up lasts until then.
  int64_t rose_at = -1;
  // Since when it is next to nothing of what it was; -1: it is not.
  int64_t vanished_at = -1;

  static constexpr double kVanished = 1e-5;
};

struct LossFact {
  LossTrack track;
  std::string class_name;  // "CrossEntropyLoss", …; "" unknown
  Where where;             // of the backward() call
  bool weighted = false;   // positives count more, so that guessing has no level that is known
};

enum class LossKind : uint8_t { kClasses, kBinary, kDistance, kOther };
LossKind loss_kind(std::string_view class_name);

// Whether the fit gets anywhere, judged by its loss.
enum class Learning : uint8_t {
  kUnknown,  // too early, warming up, adversaries, or no opinion
  kLearns,
  kStalled,  // no better than at the start, and nothing suggests that it was good there
  kWorse,    // began at guessing and is far worse
  // Far higher than at the start, and nothing says what the height means: targets that grow as
  // the model learns (Q learning), longer sequences, a next task. Bad only with another sign.
  kRises,
};

// What the order of the modules tells about the whole model.
struct ModelLayout {
  int64_t last_weights_order = -1;
  std::string last_weights;  // the module
  int64_t last_outputs = 0;  // rows of the last weight matrix
};

constexpr uint32_t kUnitsMin = 4;  // of a layer whose units are judged

class Facts {
 public:
  explicit Facts(int fit) : fit_(fit) {}

  void on_stats(const store::StatsRow& row);
  void on_scalar(const store::ScalarRow& row);
  void on_event(const store::EventRow& row) { note(row.origin); }
  void on_model(const store::ModelRow& row);

  [[nodiscard]] int fit() const { return fit_; }
  // Of the newest row; the step is the newest that was inside a step.
  [[nodiscard]] const store::Origin& newest() const { return newest_; }

  // In how many steps gradients were sampled.
  [[nodiscard]] int64_t gradient_samples() const { return gradient_samples_; }

  [[nodiscard]] const ModuleFact* module(const std::string& name) const;
  [[nodiscard]] const ParameterFact* parameter(const std::string& name) const;
  // The module that owns a parameter, by its fact or by its name: "net.0" of "net.0.weight".
  [[nodiscard]] std::string module_name_of(const std::string& parameter) const;
  // Where that module was made, if known.
  [[nodiscard]] std::optional<Where> made(const std::string& module) const;
  [[nodiscard]] const std::map<std::string, ModuleFact>& modules() const { return modules_; }
  [[nodiscard]] const std::unordered_map<std::string, ParameterFact>& parameters() const {
    return parameters_;
  }
  // Whether a module with parameters comes after `module` in the forward pass; false also when
  // the order is unknown.
  [[nodiscard]] bool weights_follow(const std::string& module) const;
  // The module of a training sample of a hidden layer's units; null for every other row, among
  // them output layers: these may end in zeros or at the end of their range, rightly.
  [[nodiscard]] const ModuleFact* hidden_units(const store::StatsRow& row) const;
  // Which optimizer owns the parameter; -1 unknown.
  [[nodiscard]] int optimizer_of(const std::string& parameter) const;
  [[nodiscard]] const std::vector<OptimizerFact>& optimizers() const { return optimizers_; }

  [[nodiscard]] const std::map<std::string, LossFact>& losses() const { return losses_; }
  [[nodiscard]] const std::map<std::string, LearningRate>& learning_rates() const {
    return learning_rates_;
  }
  // The only loss, unless several take turns as in adversarial training.
  [[nodiscard]] const LossFact* only_loss() const;
  [[nodiscard]] Learning learning() const;
  // Whatever the loss was at the start, it has stood at the level of guessing for half of the fit.
  [[nodiscard]] bool guesses() const;
  // Its output layer has weights that were loaded: it may have learnt all it can.
  [[nodiscard]] bool trained_before() const;
  // ln of the number of classes: the cross entropy of guessing. Empty where it is not known.
  [[nodiscard]] std::optional<double> chance_level(const LossFact& loss) const;
  [[nodiscard]] bool warming_up() const;
  // Gradients are scaled, so single overflows are skipped by design.
  [[nodiscard]] bool amp() const { return amp_; }
  // Steps in a row in which the only loss was a million times its first value.
  [[nodiscard]] int diverged_steps() const;
  // Steps in a row without a finite loss, the worst of all losses.
  [[nodiscard]] int lost_steps() const;

 private:
  void add_optimizer(const store::ModelRow& row);
  [[nodiscard]] int64_t order_of(const std::string& name, const Json& detail) const;
  void note(const store::Origin& origin);

  int fit_;
  store::Origin newest_;
  bool amp_ = false;
  std::map<std::string, ModuleFact> modules_;
  std::unordered_map<std::string, ParameterFact> parameters_;
  std::unordered_map<std::string, int> optimizer_of_;
  std::vector<OptimizerFact> optimizers_;
  std::map<std::string, LossFact> losses_;
  std::map<std::string, LearningRate> learning_rates_;
  int64_t gradient_samples_ = 0;
  int64_t gradient_step_ = -1;  // the last of them
  // Derived from modules and parameters, when somebody asks after they changed.
  [[nodiscard]] const ModelLayout& layout() const;
  mutable std::optional<ModelLayout> layout_;
};

}  // namespace paramedic::rules
