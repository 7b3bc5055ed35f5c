#include "rules/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "rules/rule.h"

namespace paramedic::rules {

namespace {

// Processes whose state is kept; a job that starts more is a fork bomb, whose later children are
// not judged.
constexpr size_t kProcessesMax = 4096;
// Activations of a first step; a model with more outputs is judged from its second sample on.
constexpr size_t kWaitingMax = 4096;

void cut(std::vector<std::string>& list, size_t max) {
  if (list.size() > max) list.resize(max);
}

// One rule in one fit. Merges what it reports into one finding and hands on only what matters:
// the first, each that names another tensor, place or severity, and then at doubling distance, so
// that a problem of a million steps costs some twenty updates.
class Slot : public Reporter {
 public:
  Slot(const RuleEntry& entry, const Facts& facts, std::string key, FindingSink& sink)
      : entry_(entry), facts_(facts), key_(std::move(key)), sink_(sink) {
    rule_ = entry.make(facts, *this);
  }

  Rule& rule() { return *rule_; }

  void report(Finding finding) override {
    const store::Origin& now = facts_.newest();
    finding.id = entry_.info.id;
    finding.fix = entry_.info.fix;
    finding.rank = now.rank;
    if (!finding.last_step && now.step >= 0) finding.last_step = now.step;
    if (!finding.step) finding.step = finding.last_step;
    cut(finding.tensors, kTensorsPerFindingMax);
    cut(finding.evidence, kEvidencePerFindingMax);
    if (newest_) {
      finding.time = newest_->time;
      finding.step = std::min(finding.step, newest_->step);
    } else {
      finding.time = static_cast<double>(now.time_ns) / 1e9;
    }
    ++reports_;
    const bool due = reports_ >= next_due_;
    const bool changed = !newest_ || newest_->severity != finding.severity ||
                         newest_->tensors.size() < finding.tensors.size() ||
                         newest_->where.has_value() != finding.where.has_value();
    newest_ = std::move(finding);
    pending_ = true;
    if (due) next_due_ = reports_ * 2;
    if (due || changed) flush();
  }

  void flush() {
    if (!pending_) return;
    pending_ = false;
    sink_.on_finding(key_, *newest_);
  }

 private:
  const RuleEntry& entry_;
  const Facts& facts_;
  std::string key_;
  FindingSink& sink_;
  std::unique_ptr<Rule> rule_;
  std::optional<Finding> newest_;
  bool pending_ = false;
  uint64_t reports_ = 0;
  uint64_t next_due_ = 1;
};

// One model being trained: its facts and a fresh instance of every rule.
class Fit {
 public:
  Fit(int number, const store::Origin& origin, FindingSink& sink) : facts_(number) {
    for (const RuleEntry& entry : rule_entries()) {
      // The ring tells processes of one rank apart, such as those of a sweep.
      std::string key =
          fmt::format("{}/rank-{}/{:x}/fit-{}", entry.info.id, origin.rank, origin.ring_id, number);
      slots_.push_back(std::make_unique<Slot>(entry, facts_, std::move(key), sink));
    }
  }

  template <typename Row>
  void take(const Row& row, void (Rule::*callback)(const Row&)) {
    for (const auto& slot : slots_) (slot->rule().*callback)(row);
  }

  // The first step's activations come before the facts of their modules, and wait for these.
  void take_stats(const store::StatsRow& row) {
    facts_.on_stats(row);
    const bool activation = row.tensor->kind == store::Kind::kActivation;
    if (activation && facts_.modules().empty() && waiting_.size() < kWaitingMax) {
      waiting_.push_back(row);
      return;
    }
    if (!activation) release();
    take(row, &Rule::on_stats);
  }

  Facts& facts() { return facts_; }

  // Rows carry the step they belong to: a later one completes the steps before it.
  void arrive_at(int64_t step) {
    if (step <= open_step_) return;
    complete_step();
    open_step_ = step;
  }

  void finish() {
    complete_step();
    for (const auto& slot : slots_) {
      slot->rule().finish();
      slot->flush();
    }
  }

 private:
  void release() {
    for (const store::StatsRow& row : waiting_) take(row, &Rule::on_stats);
    waiting_.clear();
  }

  void complete_step() {
    release();
    if (open_step_ < 0) return;
    for (const auto& slot : slots_) slot->rule().on_step(open_step_);
  }

  Facts facts_;
  int64_t open_step_ = -1;
  std::vector<store::StatsRow> waiting_;
  std::vector<std::unique_ptr<Slot>> slots_;
};

// Everything of one process. Processes never see each other, so that the order in which their
// rows interleave cannot matter.
class Process {
 public:
  Process(const store::Origin& origin, FindingSink& sink) : sink_(sink) { begin_fit(0, origin); }

  void on_stats(const store::StatsRow& row) {
    if (row.tensor == nullptr) return;
    fit_->arrive_at(row.origin.step);
    fit_->take_stats(row);
  }

  void on_scalar(const store::ScalarRow& row) {
    if (row.name == nullptr) return;
    fit_->arrive_at(row.origin.step);
    fit_->facts().on_scalar(row);
    fit_->take(row, &Rule::on_scalar);
  }

  void on_event(const store::EventRow& row) {
    if (row.kind == "fit_started") {
      // The first one names the fit that is open already; so does one whose model rows came first.
      if (fits_started_++ > number_) begin_fit(number_ + 1, row.origin);
      return;
    }
    fit_->arrive_at(row.origin.step);
    fit_->facts().on_event(row);
    fit_->take(row, &Rule::on_event);
  }

  void on_model(const store::ModelRow& row) {
    if (row.fit > number_) begin_fit(row.fit, row.origin);
    fit_->facts().on_model(row);
    fit_->take(row, &Rule::on_model);
  }

  void finish() { fit_->finish(); }

 private:
  void begin_fit(int number, const store::Origin& origin) {
    if (fit_) fit_->finish();
    number_ = number;
    fit_ = std::make_unique<Fit>(number, origin, sink_);
  }

  FindingSink& sink_;
  int number_ = 0;
  int fits_started_ = 0;
  std::unique_ptr<Fit> fit_;
};

class EngineImpl : public Engine {
 public:
  explicit EngineImpl(FindingSink& sink) : sink_(sink) {}

  void on_stats(const store::StatsRow& row) override {
    if (Process* process = find(row.origin)) process->on_stats(row);
  }
  void on_scalar(const store::ScalarRow& row) override {
    if (Process* process = find(row.origin)) process->on_scalar(row);
  }
  void on_event(const store::EventRow& row) override {
    if (Process* process = find(row.origin)) process->on_event(row);
  }
  void on_model(const store::ModelRow& row) override {
    if (Process* process = find(row.origin)) process->on_model(row);
  }
  void finish() override {
    for (const auto& [ring, process] : processes_) process->finish();
  }

 private:
  Process* find(const store::Origin& origin) {
    const auto found = processes_.find(origin.ring_id);
    if (found != processes_.end()) return found->second.get();
    if (processes_.size() >= kProcessesMax) return nullptr;
    auto process = std::make_unique<Process>(origin, sink_);
    return processes_.emplace(origin.ring_id, std::move(process)).first->second.get();
  }

  FindingSink& sink_;
  std::map<uint64_t, std::unique_ptr<Process>> processes_;
};

}  // namespace

std::unique_ptr<Engine> Engine::create(FindingSink& sink) {
  return std::make_unique<EngineImpl>(sink);
}

}  // namespace paramedic::rules
