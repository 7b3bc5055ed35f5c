#include "cli/report.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <unordered_map>

#include "base/file.h"
#include "base/path.h"

namespace paramedic::cli {
namespace {

constexpr uint64_t kSourceBytesMax = 4 << 20;
constexpr size_t kClassNamesMax = 4;
constexpr std::array<const char*, 6> kPhases = {"data",      "forward",    "backward",
                                                "optimizer", "validation", "checkpoint"};

// std::stable_sort of libstdc++ 12 calls a function that clang counts as deprecated.
template <typename T, typename Less>
void sort_stably(std::vector<T>& items, const Less& less) {
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (less(items[a], items[b])) return true;
    return !less(items[b], items[a]) && a < b;
  });
  std::vector<T> sorted;
  sorted.reserve(items.size());
  for (const size_t index : order) sorted.push_back(std::move(items[index]));
  items = std::move(sorted);
}

// The module that a parameter belongs to: its name without the last part.
std::string module_of(const std::string& parameter) {
  const size_t dot = parameter.find_last_of('.');
  return dot == std::string::npos ? "(model)" : parameter.substr(0, dot);
}

uint64_t elements_of(const store::TensorInfo& tensor) {
  uint64_t elements = 1;
  for (const int64_t size : tensor.sizes) {
    if (size < 0 || __builtin_mul_overflow(elements, uint64_t(size), &elements)) return 0;
  }
  return elements;
}

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (name.empty() || names.size() >= kClassNamesMax) return;
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

// Model facts: the forward order of modules and the few words that describe the job.
class ModelPass {
 public:
  explicit ModelPass(Report& report) : report_(report) {}

  void add(const store::ModelRow& row) {
    if (row.kind == "module") {
      modules_.try_emplace(row.name, Module{modules_.size(), row.class_name});
    } else if (row.kind == "optimizer") {
      add_once(report_.optimizers, row.class_name);
    } else if (row.kind == "loss") {
      add_once(report_.loss_kinds, row.class_name);
    } else if (row.kind == "loader" && report_.batch_size == 0) {
      const Result<Json> detail = parse_json(row.detail, "loader");
      if (detail.ok()) report_.batch_size = integer_or(*detail, "batch_size", 0);
    }
  }

  // Puts the layers in forward order; those whose module is unknown keep their order at the end.
  void arrange() {
    const auto order = [this](const Layer& layer) {
      const auto found = modules_.find(layer.name);
      return found == modules_.end() ? modules_.size() : found->second.order;
    };
    sort_stably(report_.layers,
                [&](const Layer& a, const Layer& b) { return order(a) < order(b); });
    for (Layer& layer : report_.layers) {
      const auto found = modules_.find(layer.name);
      if (found != modules_.end()) layer.class_name = found->second.class_name;
    }
  }

 private:
  struct Module {
    size_t order = 0;
    std::string class_name;
  };
  Report& report_;
  std::unordered_map<std::string, Module> modules_;
};

// Gradients by layer and their global norm. Interned tensors make a row cost one hash look-up,
// mostly saved: tensors come in the same order at each step, so the next slot is guessed.
class GradientPass {
 public:
  explicit GradientPass(Report& report) : report_(report) {}

  void add(const store::StatsRow& row) {
    if (row.tensor->kind != store::Kind::kGradient || row.origin.step < 0) return;
    if (row.origin.step != step_ || row.origin.ring_id != ring_) end_step();
    step_ = row.origin.step;
    ring_ = row.origin.ring_id;
    const stats::TensorStats& stats = row.stats;
    sum_squares_ += stats.sum_squares;
    non_finite_ += stats.non_finite();
    tensors_++;
    const size_t layer = layer_of(row);
    if (layer == kMaxLayers) return;
    report_.layers[layer].gradient.at(step_).add(step_, stats.sum_squares, stats.finite(),
                                                 stats.non_finite());
  }

  void end_step() {
    // A step at which only a few tensors were due says nothing of the global norm.
    if (tensors_ * 2 >= tensors_most_ && tensors_ > 0) {
      const double nan = std::numeric_limits<double>::quiet_NaN();
      report_.norm.add(step_, non_finite_ > 0 ? nan : std::sqrt(sum_squares_));
    }
    tensors_most_ = std::max(tensors_most_, tensors_);
    tensors_ = 0;
    sum_squares_ = 0;
    non_finite_ = 0;
  }

 private:
  size_t layer_of(const store::StatsRow& row) {
    guess_++;
    if (guess_ >= slots_.size()) guess_ = 0;
    if (!slots_.empty() && slots_[guess_].tensor == row.tensor) return slots_[guess_].layer;
    const auto [known, is_new] = slot_of_.try_emplace(row.tensor, slots_.size());
    if (is_new) slots_.push_back({row.tensor, new_tensor(row)});
    guess_ = known->second;
    return slots_[guess_].layer;
  }

  size_t new_tensor(const store::StatsRow& row) {
    const std::string module = module_of(row.tensor->name);
    auto found = layer_named_.find(module);
    if (found == layer_named_.end()) {
      if (report_.layers.size() >= kMaxLayers) return kMaxLayers;
      found = layer_named_.emplace(module, report_.layers.size()).first;
      report_.layers.push_back({module, "", 0, {}});
    }
    // Each rank has its own copy of the parameters; they are counted once.
    if (counted_.insert(row.tensor->name).second) {
      report_.layers[found->second].parameters += elements_of(*row.tensor);
    }
    return found->second;
  }

  struct Slot {
    const store::TensorInfo* tensor = nullptr;
    size_t layer = 0;
  };
  Report& report_;
  std::vector<Slot> slots_;
  std::unordered_map<const store::TensorInfo*, size_t> slot_of_;
  std::unordered_map<std::string, size_t> layer_named_;
  std::set<std::string> counted_;
  size_t guess_ = 0;
  int64_t step_ = -1;
  uint64_t ring_ = 0;
  double sum_squares_ = 0;
  uint64_t non_finite_ = 0;
  size_t tensors_ = 0;
  size_t tensors_most_ = 0;
};

// Losses, learning rates, norms and times.
class ScalarPass {
 public:
  explicit ScalarPass(Report& report) : report_(report) {
    for (const char* phase : kPhases) report_.phases.push_back({phase, 0});
  }

  void add(const store::ScalarRow& row) {
    const Key key = {row.name, row.origin.mode};
    if (!last_ || key != last_key_) {
      const auto [known, is_new] = handlers_.try_emplace(key);
      if (is_new) known->second = handler_of(*row.name, row.origin.mode);
      last_ = &known->second;
      last_key_ = key;
    }
    const Handler& handler = *last_;
    if (handler.series != nullptr) (*handler.series)[handler.index].add(row.origin.step, row.value);
    if (handler.single != nullptr) handler.single->add(row.origin.step, row.value);
    if (handler.total_ms != nullptr && std::isfinite(row.value)) *handler.total_ms += row.value;
    if (handler.total_ms == &report_.step_ms_total) report_.steps_timed++;
  }

  void arrange() {
    const auto more = [](const Series& a, const Series& b) { return a.count > b.count; };
    sort_stably(report_.losses, more);
    std::erase_if(report_.phases, [](const Phase& phase) { return phase.total_ms <= 0; });
  }

 private:
  using Key = std::pair<const std::string*, store::Mode>;
  // Where the values of a name go; at most one of the three is set.
  struct Handler {
    std::vector<Series>* series = nullptr;
    size_t index = 0;
    Series* single = nullptr;
    double* total_ms = nullptr;
  };

  Handler handler_of(std::string_view name, store::Mode mode) {
    if (name.starts_with("loss/")) return series_in(report_.losses, name.substr(5), mode);
    if (name.starts_with("learning_rate/")) return series_in(report_.rates, name.substr(14), mode);
    if (name == "gradient_norm_before_clip") return {.single = &report_.norm_before_clip};
    if (name == "step_ms") return {.total_ms = &report_.step_ms_total};
    for (size_t i = 0; i < kPhases.size(); i++) {
      if (name == "phase/" + std::string(kPhases[i]) + "_ms") {
        return {.total_ms = &report_.phases[i].total_ms};
      }
    }
    return {};
  }

  // The same name from several processes (ranks) is one curve.
  static Handler series_in(std::vector<Series>& list, std::string_view name, store::Mode mode) {
    size_t index = 0;
    while (index < list.size() &&
           (list[index].name != name || list[index].mode != store::mode_name(mode))) {
      index++;
    }
    if (index == kMaxSeries) return {};
    if (index == list.size()) {
      Series series;
      series.name = name;
      series.mode = store::mode_name(mode);
      list.push_back(std::move(series));
    }
    return {.series = &list, .index = index};
  }

  Report& report_;
  std::map<Key, Handler> handlers_;
  const Handler* last_ = nullptr;
  Key last_key_ = {};
};

Status read_problems(store::RunReader& reader, Report& report) {
  PARAMEDIC_ASSIGN(const auto rows, reader.read_findings());
  for (const store::FindingRow& row : rows) {
    PARAMEDIC_ASSIGN(const Json json, parse_json(row.json, "finding " + row.key));
    PARAMEDIC_ASSIGN(rules::Finding finding, rules::Finding::from_json(json));
    Problem problem{std::move(finding), {}};
    if (problem.finding.where) problem.quote = quote_source(*problem.finding.where, report.info);
    report.problems.push_back(std::move(problem));
  }
  sort_problems(report.problems);
  return {};
}

std::optional<rules::Where> place_of(const Json& failure) {
  const auto where = failure.is_object() ? failure.find("where") : failure.end();
  if (where == failure.end() || !where->is_object()) return std::nullopt;
  return rules::Where{string_or(*where, "file", ""),
                      static_cast<int32_t>(integer_or(*where, "line", 0)),
                      string_or(*where, "function", "")};
}

bool has_several_ranks(const store::RunInfo& info) {
  return std::any_of(info.ranks.begin(), info.ranks.end(), [&](const store::RunInfo::Rank& rank) {
    return rank.rank != info.ranks.front().rank;
  });
}

Status read_ranks_view(store::RunReader& reader, double now, Report& report) {
  if (!has_several_ranks(report.info)) return {};
  std::vector<rules::Finding> findings;
  for (const Problem& problem : report.problems) findings.push_back(problem.finding);
  PARAMEDIC_ASSIGN(report.ranks_view, build_ranks_view(reader, findings, now));
  return {};
}

}  // namespace

const char* Report::health() const {
  if (info.status == "failed") return "failed";
  const bool harmed = count(rules::Severity::kError) + count(rules::Severity::kWarning) > 0;
  return harmed ? "problems" : "healthy";
}

size_t Report::count(rules::Severity severity) const {
  return std::count_if(problems.begin(), problems.end(), [severity](const Problem& problem) {
    return problem.finding.severity == severity;
  });
}

StepRange Report::steps() const {
  StepRange range = norm.steps;
  range.merge(norm_before_clip.steps);
  for (const Series& series : losses) range.merge(series.steps);
  for (const Series& series : rates) range.merge(series.steps);
  return range;
}

uint64_t Report::parameters() const {
  uint64_t total = 0;
  for (const Layer& layer : layers) total += layer.parameters;
  return total;
}

double Report::seconds() const { return std::max(0.0, info.ended.value_or(now) - info.started); }

void sort_problems(std::vector<Problem>& problems) {
  sort_stably(problems, [](const Problem& a, const Problem& b) {
    const auto rank = [](const Problem& problem) {
      return std::make_tuple(-static_cast<int>(problem.finding.severity),
                             problem.finding.step.value_or(-1), problem.finding.time);
    };
    return rank(a) < rank(b);
  });
}

Result<Report> build_report(store::RunReader& reader, double now) {
  Report report;
  report.info = reader.info();
  report.now = now;
  report.name = base_name(report.info.dir);
  PARAMEDIC_TRY(read_problems(reader, report));
  report.failure_place = place_of(report.info.failure);
  if (report.failure_place) report.failure_quote = quote_source(*report.failure_place, report.info);
  GradientPass gradients(report);
  PARAMEDIC_TRY(reader.read_stats([&](const store::StatsRow& row) {
    gradients.add(row);
    return true;
  }));
  gradients.end_step();
  ScalarPass scalars(report);
  PARAMEDIC_TRY(reader.read_scalars([&](const store::ScalarRow& row) {
    scalars.add(row);
    return true;
  }));
  scalars.arrange();
  ModelPass model(report);
  PARAMEDIC_TRY(reader.read_model([&](const store::ModelRow& row) {
    model.add(row);
    return true;
  }));
  model.arrange();
  PARAMEDIC_TRY(reader.read_repairs([&](const store::RepairRow& row) {
    report.repairs.push_back(row);
    return report.repairs.size() < kMaxRepairs;
  }));
  sort_stably(report.repairs, [](const store::RepairRow& a, const store::RepairRow& b) {
    return a.time_ns < b.time_ns;
  });
  PARAMEDIC_TRY(read_ranks_view(reader, now, report));
  report.damage = reader.damage();
  return report;
}

Quote quote_source(const rules::Where& where, const store::RunInfo& info) {
  if (where.line <= 0 || where.file.empty()) return {};
  const std::string path = where.file.front() == '/' ? where.file : info.cwd + "/" + where.file;
  struct stat status{};
  // Only a plain file of a sane size is a source file; a pipe would block.
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode) ||
      static_cast<uint64_t>(status.st_size) > kSourceBytesMax) {
    return {};
  }
  const Result<std::string> text = posix_file_system().read(path);
  if (!text.ok()) return {};
  size_t start = 0;
  for (int32_t line = 1; line < where.line; line++) {
    start = text->find('\n', start);
    if (start == std::string::npos) return {};
    start++;
  }
  const size_t end = std::min(text->find('\n', start), text->size());
  return {text->substr(start, end - start), static_cast<double>(status.st_mtime) > info.started};
}

}  // namespace paramedic::cli
