// An embedding that learns nothing.

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "rules/rule.h"
#include "rules/told.h"

namespace paramedic::rules {

namespace {

constexpr int64_t kSamples = 2;
constexpr int64_t kLooks = 6;  // the adapter's (tables.py)

struct Table {
  int64_t samples = 0;
  bool moved = false;
};

class DeadEmbedding : public Rule {
 public:
  using Rule::Rule;

  void on_stats(const store::StatsRow& row) override {
    if (row.tensor->kind != store::Kind::kGradient) return;
    const bool moved = row.stats.zero < row.stats.count;
    const std::string module = facts().module_name_of(row.tensor->name);
    const ModuleFact* fact = facts().module(module);
    if (fact == nullptr) return;
    if (moved) last_moved_ = std::max(last_moved_, fact->order);
    if (!is_table(*fact) || tables_.size() >= kTensorsMax) return;
    Table& table = tables_[row.tensor->name];
    ++table.samples;
    table.moved = table.moved || moved;
  }

  // Every index it is given is the same one.
  void on_event(const store::EventRow& row) override {
    const std::optional<Json> fields = told(row, "embedding_of_one");
    if (!fields) return;
    const std::string module = string_or(*fields, "module", "the embedding");
    tell(module,
         fmt::format("{} is asked for row {} of its {} in every look: all that it is given "
                     "is the same index",
                     module, integer_or(*fields, "index", 0), integer_or(*fields, "rows", 0)));
  }

  // Only at the end: what is not reached at first may be later.
  void finish() override {
    if (facts().gradient_samples() < kSamples || done_) return;
    for (const auto& [name, parameter] : facts().parameters()) {
      const ModuleFact* fact = facts().module(parameter.module);
      if (fact == nullptr || !is_table(*fact) || !fact->called || fact->loaded) continue;
      if (!parameter.trainable || facts().optimizer_of(name) < 0) continue;
      if (fact->order >= last_moved_ || facts().trained_before()) continue;
      const auto found = tables_.find(name);
      if (found == tables_.end()) {
        tell(parameter.module, fmt::format("{} is called, and its table {} never had a gradient",
                                           parameter.module, name));
      } else if (!found->second.moved && found->second.samples >= kSamples) {
        tell(parameter.module,
             fmt::format("the gradient of {} is zero in all of {} samples: only its padding is "
                         "looked up, or nothing of it reaches the loss",
                         name, found->second.samples));
      }
      if (done_) return;
    }
  }

 private:
  static bool is_table(const ModuleFact& fact) {
    return fact.class_name == "Embedding" || fact.class_name == "EmbeddingBag";
  }

  void tell(const std::string& module, std::string message) {
    done_ = true;
    Finding finding;
    finding.severity = Severity::kWarning;
    finding.step = 0;
    finding.last_step = facts().newest().step;
    finding.kind = "gradient";
    finding.tensor = module + ".weight";
    finding.confidence = 0.85;
    finding.where = facts().made(module);
    finding.message = std::move(message);
    report(std::move(finding));
  }

  std::map<std::string, Table> tables_;
  int64_t last_moved_ = -1;
  bool done_ = false;
};

}  // namespace

RuleEntry dead_embedding_rule() {
  return {{"dead_embedding",
           Severity::kWarning,
           "An embedding learns nothing",
           "A table of an optimizer that is called in the first forward pass never has a gradient, "
           "or only zeros, in the whole fit, though layers after it have; or a table of 50 rows or "
           "more is asked for one and the same row in all of six looks. Not judged: loaded "
           "weights, tables with requires_grad off.",
           "look at the indices it is given: a vocabulary that knows no word gives padding or one "
           "unknown word; and for detach() after it",
           {{"samples", static_cast<double>(kSamples), 1, 1e9, "of gradients at least"},
            {"looks", static_cast<double>(kLooks), 1, 1000, "at its indices"}}},
          &make_rule<DeadEmbedding>};
}

}  // namespace paramedic::rules
