#include "rules/facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/json.h"
#include "rules/engine.h"

namespace paramedic::rules {

namespace {

// Call sites and parameter groups; more than any job has, so that a broken one cannot grow us.
constexpr size_t kScalarNamesMax = 1000;
constexpr size_t kOptimizersMax = 1000;
// Losses that are both used within so many steps take turns: a game, or several tasks.
constexpr int64_t kTurnSteps = 50;
// Cross entropy this close to guessing has learnt nothing.
constexpr double kChanceShare = 0.95;
// Guessing among two classes of 70 and 30 % is at 0.88 of guessing among equal ones.
constexpr double kUnequalShare = 0.85;
// A distance this large is that of standardised targets to a constant (whose variance is 1), or
// more; a smaller one may be a converged model that is trained further.
constexpr double kDistanceUnlearnt = 0.5;
// Losses that swing more than this around their level say little (reinforcement learning does).
constexpr double kNoiseShareMax = 0.3;
// Where no level says what guessing gives, a fall that the noise could hide must not be missed.
constexpr double kErrorShareMax = 0.05;
constexpr double kWorseFactor = 3;
// Of guessing: an untrained classifier starts no lower.
constexpr double kFromBelow = 0.8;
// Of the very first loss: what is less has been learnt, however soon.
constexpr double kAtOnceShare = 0.9;
// An untrained classifier starts near guessing; a sum over the batch starts far above.
constexpr double kStartShare = 1.5;
// No batch is by chance so much easier than the next ones.
constexpr double kBlownUp = 10;

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::string folded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '_') continue;
    out += (c >= 'A' && c <= 'Z') ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return out;
}

std::vector<int64_t> shape_of(const Json& detail) {
  std::vector<int64_t> shape;
  const auto found = detail.find("shape");
  if (found == detail.end() || !found->is_array()) return shape;
  for (const Json& size : *found) {
    if (size.is_number_integer() && shape.size() < stats::kMaxDims) {
      shape.push_back(size.get<int64_t>());
    }
  }
  return shape;
}

}  // namespace

LossKind loss_kind(std::string_view class_name) {
  const std::string name = folded(class_name);
  if (contains(name, "binarycrossentropy") || name.starts_with("bce")) return LossKind::kBinary;
  if (contains(name, "crossentropy") || contains(name, "nllloss")) return LossKind::kClasses;
  for (const char* part : {"mse", "l1", "huber"}) {
    if (contains(name, part)) return LossKind::kDistance;
  }
  return LossKind::kOther;
}

void Facts::note(const store::Origin& origin) {
  const int64_t step = origin.step >= 0 ? origin.step : newest_.step;
  newest_ = origin;
  newest_.step = step;
}

void Facts::on_stats(const store::StatsRow& row) {
  note(row.origin);
  if (row.tensor->kind != store::Kind::kGradient) return;
  if (row.origin.step != gradient_step_) ++gradient_samples_;
  gradient_step_ = row.origin.step;
}

void Facts::on_scalar(const store::ScalarRow& row) {
  note(row.origin);
  const std::string& name = *row.name;
  if (name == "amp_scale") amp_ = true;
  if (name.starts_with("loss/")) {
    auto found = losses_.find(name);
    if (found == losses_.end()) {
      if (losses_.size() >= kScalarNamesMax) return;
      found = losses_.emplace(name, LossFact{}).first;
      // "loss/FILE:LINE" says where even when no model row does.
      const size_t colon = name.rfind(':');
      if (colon != std::string::npos) {
        found->second.where.file = name.substr(5, colon - 5);
        std::from_chars(name.data() + colon + 1, name.data() + name.size(),
                        found->second.where.line);
      }
    }
    found->second.track.add(row.origin.step, row.value);
  } else if (name.starts_with("learning_rate/")) {
    auto [found, added] = learning_rates_.try_emplace(name);
    LearningRate& rate = found->second;
    if (added) rate = {row.value, row.value, row.value, row.origin.step, -1, -1};
    if (row.value > rate.newest * 1.01) rate.rose_at = row.origin.step;
    rate.newest = row.value;
    rate.low = std::min(rate.low, row.value);
    rate.high = std::max(rate.high, row.value);
    if (row.value >= LearningRate::kVanished * rate.high) {
      rate.vanished_at = -1;
    } else if (rate.vanished_at < 0) {
      rate.vanished_at = row.origin.step;
    }
    if (learning_rates_.size() > kScalarNamesMax) learning_rates_.erase(found);
  }
}

void Facts::on_model(const store::ModelRow& row) {
  note(row.origin);
  const Result<Json> parsed = parse_json(row.detail.empty() ? "{}" : row.detail, "model detail");
  const Json detail = parsed.ok() && parsed->is_object() ? *parsed : Json::object();
  if (row.kind == "module" && modules_.size() < kTensorsMax) {
    ModuleFact& module = modules_[row.name];
    module.class_name = row.class_name;
    module.made = {row.file, row.line, row.function};
    module.order = order_of(row.name, detail);
    module.loaded = bool_or(detail, "loaded", false);
    const auto called = detail.find("called");
    module.called = called == detail.end() || !called->is_null();
  } else if (row.kind == "function" && modules_.size() < kTensorsMax) {
    // An activation that is no module, called with what a layer gave: it stands where that does.
    const ModuleFact* layer = module(string_or(detail, "layer", ""));
    if (layer == nullptr) return;
    ModuleFact function = *layer;
    function.class_name = row.class_name;
    function.made = {row.file, row.line, row.function};
    modules_[row.name] = std::move(function);
  } else if (row.kind == "parameter" && parameters_.size() < kTensorsMax) {
    std::string module = string_or(detail, "module", module_name_of(row.name));
    parameters_[row.name] = {std::move(module), shape_of(detail),
                             bool_or(detail, "requires_grad", true)};
  } else if (row.kind == "optimizer") {
    add_optimizer(row);
  } else if (row.kind == "loss" && losses_.size() < kScalarNamesMax) {
    // The adapter names the row as its scalar; the file of the row is absolute, the name's is not.
    const bool named = row.name.starts_with("loss/");
    LossFact& loss = losses_[named ? row.name : fmt::format("loss/{}:{}", row.file, row.line)];
    loss.class_name = row.class_name;
    loss.where = {row.file, row.line, row.function};
    loss.weighted = bool_or(detail, "weighted", false);
  }
  layout_.reset();
}

// A module that is never called (the output projection of torch's attention, whose weights its
// owner uses) stands last among the rows; its place is that of the module around it.
int64_t Facts::order_of(const std::string& name, const Json& detail) const {
  const int64_t order = integer_or(detail, "order", -1);
  const auto called = detail.find("called");
  if (called == detail.end() || !called->is_null()) return order;
  std::string outer = name;
  for (size_t dot = outer.rfind('.'); dot != std::string::npos; dot = outer.rfind('.')) {
    outer.resize(dot);
    if (const ModuleFact* fact = module(outer)) return fact->order;
  }
  return order;
}

const ModelLayout& Facts::layout() const {
  if (layout_) return *layout_;
  layout_.emplace();
  int64_t matrix_order = -1;
  for (const auto& [name, parameter] : parameters_) {
    const ModuleFact* owner = module(parameter.module);
    if (owner == nullptr) continue;
    if (owner->order > layout_->last_weights_order) {
      layout_->last_weights_order = owner->order;
      layout_->last_weights = parameter.module;
    }
    if (parameter.shape.size() < 2 || owner->order <= matrix_order) continue;
    matrix_order = owner->order;
    layout_->last_outputs = parameter.shape[0];
  }
  return *layout_;
}

void Facts::add_optimizer(const store::ModelRow& row) {
  if (optimizers_.size() >= kOptimizersMax) return;
  const Result<Json> parsed = parse_json(row.detail.empty() ? "{}" : row.detail, "optimizer");
  OptimizerFact optimizer;
  optimizer.class_name = row.class_name;
  optimizer.made = {row.file, row.line, row.function};
  const int number = static_cast<int>(optimizers_.size());
  if (parsed.ok() && parsed->is_object() && parsed->contains("groups") &&
      (*parsed)["groups"].is_array()) {
    const Json& groups = (*parsed)["groups"];
    for (const Json& group : groups) {
      if (!group.is_object()) continue;
      if (&group == &groups.front()) optimizer.momentum = number_or(group, "momentum", 0);
      if (!group.contains("parameters") || !group["parameters"].is_array()) continue;
      for (const Json& name : group["parameters"]) {
        if (!name.is_string() || optimizer_of_.size() >= kTensorsMax) continue;
        optimizer_of_[name.get<std::string>()] = number;
      }
    }
  }
  optimizers_.push_back(std::move(optimizer));
}

const ModuleFact* Facts::module(const std::string& name) const {
  const auto found = modules_.find(name);
  return found == modules_.end() ? nullptr : &found->second;
}

const ParameterFact* Facts::parameter(const std::string& name) const {
  const auto found = parameters_.find(name);
  return found == parameters_.end() ? nullptr : &found->second;
}

std::string Facts::module_name_of(const std::string& parameter_name) const {
  if (const ParameterFact* fact = parameter(parameter_name)) return fact->module;
  const size_t dot = parameter_name.rfind('.');
  return dot == std::string::npos ? "" : parameter_name.substr(0, dot);
}

std::optional<Where> Facts::made(const std::string& module_name) const {
  const ModuleFact* fact = module(module_name);
  if (fact == nullptr || fact->made.line <= 0) return std::nullopt;
  return fact->made;
}

bool Facts::weights_follow(const std::string& module_name) const {
  const ModuleFact* fact = module(module_name);
  return fact != nullptr && fact->order >= 0 && fact->order < layout().last_weights_order;
}

const ModuleFact* Facts::hidden_units(const store::StatsRow& row) const {
  if (row.tensor->kind != store::Kind::kActivation || row.units < kUnitsMin) return nullptr;
  if (row.origin.mode != store::Mode::kTrain || !weights_follow(row.tensor->name)) return nullptr;
  return module(row.tensor->name);
}

int Facts::optimizer_of(const std::string& parameter_name) const {
  const auto found = optimizer_of_.find(parameter_name);
  return found == optimizer_of_.end() ? -1 : found->second;
}

const LossFact* Facts::only_loss() const {
  if (optimizers_.size() > 1) return nullptr;
  const LossFact* only = nullptr;
  for (const auto& [name, loss] : losses_) {
    if (loss.track.last_step() < 0 || loss.track.last_step() < newest_.step - kTurnSteps) continue;
    if (only != nullptr) return nullptr;
    only = &loss;
  }
  return only;
}

std::optional<double> Facts::chance_level(const LossFact& loss) const {
  if (loss.weighted) return std::nullopt;
  const LossKind kind = loss_kind(loss.class_name);
  if (kind == LossKind::kBinary) return std::log(2.0);
  if (kind != LossKind::kClasses) return std::nullopt;
  // As many classes as the last layer has outputs.
  const int64_t classes = layout().last_outputs;
  if (classes < 2) return std::nullopt;
  return std::log(static_cast<double>(classes));
}

bool Facts::warming_up() const {
  return std::any_of(learning_rates_.begin(), learning_rates_.end(), [&](const auto& entry) {
    const LearningRate& rate = entry.second;
    return rate.rose_at >= 0 && newest_.step - rate.rose_at < LossTrack::kStepsMin;
  });
}

Learning Facts::learning() const {
  const LossFact* loss = only_loss();
  if (loss == nullptr || lost_steps() > 0) return Learning::kUnknown;
  const LossVerdict& verdict = loss->track.verdict();
  double chance = chance_level(*loss).value_or(0);  // 0: not known
  // A sum over a batch starts far above guessing: there its level says nothing.
  if (verdict.start >= kWorseFactor * chance) chance = 0;
  const bool guesses = chance > 0 && verdict.recent >= kChanceShare * chance;
  if (verdict.steps < LossTrack::kStepsMin) return Learning::kUnknown;
  // Began at guessing and is there now, whatever happened between (a rate that is too high makes
  // the first steps terrible, so that the loss then seems to fall).
  const bool began_there = chance > 0 && verdict.start < kStartShare * chance &&
                           verdict.start - verdict.recent < 0.1 * verdict.start;
  // What came back from a blow-up to where it began has stayed there as well.
  const double back = kStartShare * verdict.start;
  const bool stays = verdict.middle - verdict.recent < 0.01 * verdict.recent ||
                     (verdict.middle > back && verdict.recent < back);
  const bool stuck_at_chance = guesses && began_there && stays;
  // The first steps blew up and only that is made good: the loss falls, but not below its start.
  const bool blew_up = verdict.first > kBlownUp * verdict.start && verdict.start > 0 &&
                       verdict.recent > (1 - LossTrack::kChangeMin) * verdict.start;
  if (verdict.trend == Trend::kFalling && !stuck_at_chance) {
    return blew_up ? Learning::kUnknown : Learning::kLearns;
  }
  if (warming_up()) return Learning::kUnknown;
  if (verdict.trend == Trend::kUnknown && !stuck_at_chance) return Learning::kUnknown;
  if (verdict.recent <= 0 || verdict.first <= 0) return Learning::kUnknown;
  const bool rises = verdict.trend == Trend::kRising;
  const bool far = rises && verdict.recent > kWorseFactor * verdict.first;
  if (chance > 0) {
    if (!guesses) return Learning::kUnknown;
    // Contrast with a queue of negatives starts far below: it rises while the queue fills.
    if (rises && verdict.start < kFromBelow * chance) {
      return far ? Learning::kRises : Learning::kUnknown;
    }
    return far ? Learning::kWorse : Learning::kStalled;
  }
  if (rises) {
    return far && verdict.recent > kDistanceUnlearnt ? Learning::kRises : Learning::kUnknown;
  }
  const bool quiet_enough = verdict.noise < kNoiseShareMax * verdict.recent &&
                            4 * verdict.error < kErrorShareMax * verdict.recent;
  // A solver such as LBFGS is where it can get within less steps than the head has.
  const bool fell_at_once = verdict.recent < kAtOnceShare * verdict.start;
  const bool unlearnt = verdict.recent >= kDistanceUnlearnt && !trained_before() && !fell_at_once;
  return quiet_enough && unlearnt ? Learning::kStalled : Learning::kUnknown;
}

bool Facts::guesses() const {
  const LossFact* loss = only_loss();
  const std::optional<double> chance = loss == nullptr ? std::nullopt : chance_level(*loss);
  if (!chance) return false;
  const auto is_chance = [&](double level) {
    return level >= kUnequalShare * *chance && level <= *chance / kChanceShare;
  };
  const LossVerdict& verdict = loss->track.verdict();
  return verdict.steps >= LossTrack::kStepsMin && is_chance(verdict.middle) &&
         is_chance(verdict.recent);
}

bool Facts::trained_before() const {
  const std::string& last = layout().last_weights;
  return std::any_of(modules_.begin(), modules_.end(), [&](const auto& entry) {
    const std::string& name = entry.first;
    // The root's name is empty where there is one model.
    const bool holds = name.empty() || name == last || last.starts_with(name + ".");
    return entry.second.loaded && holds;
  });
}

int Facts::diverged_steps() const {
  const LossFact* loss = only_loss();
  return loss == nullptr ? 0 : loss->track.diverged_steps();
}

int Facts::lost_steps() const {
  int lost = 0;
  for (const auto& [name, loss] : losses_) lost = std::max(lost, loss.track.non_finite_steps());
  return lost;
}

}  // namespace paramedic::rules
