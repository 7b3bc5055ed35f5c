// The rank on which the first value that is not finite was born: after a reduction all have it.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/json.h"
#include "cluster/watch.h"

namespace paramedic::cluster {
namespace {

// Losses of a rank that are followed, and ranks.
constexpr size_t kLossesMax = 100;
constexpr size_t kRanksMax = 100'000;
// Steps within which a value that a rank shares has reached the others.
constexpr int64_t kSpreadSteps = 2;
// A loss scaler meets overflows by design: only losses that stay lost count (rules, nan_origin).
constexpr int64_t kLostStepsAmp = 12;

// What a rank's own search for the origin told.
struct Origin {
  int64_t step = -1;
  bool received = false;  // its own iteration is finite
  bool certain = false;
  std::string alarm;  // what was not finite first: loss | gradient
  std::optional<rules::Where> where;
  std::string module;
  std::string operation;
  std::string expression;
};

struct Rank {
  std::map<std::string, int64_t>
      lost_since;  // by loss: the first step of those not finite in a row
  std::map<std::string, rules::Where> losses;
  int64_t last_step = -1;
  std::optional<Origin> origin;
  bool amp = false;

  [[nodiscard]] std::optional<int64_t> lost() const {
    std::optional<int64_t> first;
    for (const auto& [name, step] : lost_since) first = std::min(first.value_or(step), step);
    return first;
  }
};

class NanSourceRank : public Watch {
 public:
  using Watch::Watch;

  void on_scalar(const store::ScalarRow& row) override {
    const std::string& name = *row.name;
    Rank* rank = rank_of(row.origin.rank);
    if (done_ || rank == nullptr) return;
    if (name == "amp_scale") rank->amp = true;
    if (!name.starts_with("loss/")) return;
    rank->last_step = std::max(rank->last_step, row.origin.step);
    if (std::isfinite(row.value)) {
      rank->lost_since.erase(name);
    } else if (rank->lost_since.size() < kLossesMax) {
      rank->lost_since.try_emplace(name, row.origin.step);
    }
  }

  void on_event(const store::EventRow& row) override {
    if (done_ || row.kind != "nan_origin") return;
    const Result<Json> told = parse_json(row.json, "event nan_origin");
    Rank* rank = rank_of(row.origin.rank);
    if (!told.ok() || !told->is_object() || rank == nullptr) return;
    // A search that has shown nothing is followed by another one, such as that for a gradient.
    if (rank->origin && (rank->origin->received || rank->origin->certain)) return;
    Origin origin;
    origin.step = row.origin.step;
    origin.received = bool_or(*told, "received", false);
    origin.certain = !origin.received && bool_or(*told, "certain", true);
    if (const auto where = told->find("where"); where != told->end() && where->is_object()) {
      origin.where = {string_or(*where, "file", ""),
                      static_cast<int32_t>(integer_or(*where, "line", 0)),
                      string_or(*where, "function", "")};
    }
    origin.alarm = string_or(*told, "alarm", "loss");
    origin.module = string_or(*told, "module", "");
    origin.operation = string_or(*told, "operation", "");
    origin.expression = string_or(*told, "expression", "");
    rank->origin = std::move(origin);
  }

  void on_model(const store::ModelRow& row) override {
    if (row.kind != "loss") return;
    if (Rank* rank = rank_of(row.origin.rank)) {
      rank->losses[row.name] = {row.file, row.line, row.function};
    }
  }

  void tick(const Moment& moment) override {
    gone_.clear();
    world_size_ = std::max<size_t>(world_size_, moment.processes.size());
    for (const RankProcess& process : moment.processes) {
      world_size_ = std::max<size_t>(world_size_, static_cast<size_t>(process.world_size));
      if (!process.alive) gone_.insert(process.rank);
    }
    conclude(false);
  }
  void finish() override { conclude(true); }

 private:
  Rank* rank_of(int32_t rank) {
    if (ranks_.size() >= kRanksMax && !ranks_.contains(rank)) return nullptr;
    return &ranks_[rank];
  }

  void conclude(bool last) {
    if (done_ || ranks_.size() < 2) return;
    if (by_searches(last) || by_losses(last)) done_ = true;
  }

  // Each rank has repeated its iteration without the others: only those that met the value again
  // have made it. Of a gradient under a finite loss nothing else can tell whose it is.
  bool by_searches(bool last) {
    std::set<int32_t> sources;
    size_t received = 0;
    for (const auto& [number, rank] : ranks_) {
      if (!rank.origin) continue;
      if (rank.origin->received) ++received;
      if (rank.origin->certain) sources.insert(number);
    }
    const size_t answered = sources.size() + received;
    if (received == 0 || sources.empty() || (answered < world_size_ && !last)) return false;
    const auto is_lost = [](const auto& entry) { return entry.second.lost().has_value(); };
    // A step that is skipped, or scaled anew, loses nothing.
    if (std::none_of(ranks_.begin(), ranks_.end(), is_lost)) return false;
    // Ranks that differ in when they met it met different ones.
    int64_t step = INT64_MAX;
    for (const int32_t rank : sources) step = std::min(step, ranks_[rank].origin->step);
    std::erase_if(sources, [&](int32_t rank) { return ranks_[rank].origin->step > step; });
    tell(sources, step, ranks_[*sources.begin()].origin->alarm);
    return true;
  }

  bool by_losses(bool last) {
    int64_t step = INT64_MAX;
    for (const auto& [number, rank] : ranks_) step = std::min(step, rank.lost().value_or(step));
    if (step == INT64_MAX) return false;
    std::set<int32_t> sources;
    bool spread = false;
    int64_t slowest = INT64_MAX;
    for (const auto& [number, rank] : ranks_) {
      const auto lost = rank.lost();
      if (lost == step) {
        sources.insert(number);
        continue;
      }
      // The others must have come to that step with a loss that was finite, or never.
      const bool over = last || gone_.contains(number);
      if (rank.last_step < step && !over) return false;
      slowest = std::min(slowest, rank.last_step);
      spread = spread || lost || (rank.origin && rank.origin->received);
      if (rank.amp && rank.last_step < step + kLostStepsAmp) return false;
    }
    if (sources.size() == ranks_.size() || ranks_.size() < world_size_) return false;
    const bool ended = last || std::any_of(sources.begin(), sources.end(),
                                           [&](int32_t rank) { return gone_.contains(rank); });
    // Who goes on for long with finite losses shares nothing with the rank that is lost.
    if (!spread && !(ended && slowest < step + kSpreadSteps)) return false;
    tell(sources, step, "loss");
    return true;
  }

  void tell(const std::set<int32_t>& sources, int64_t step, const std::string& kind) {
    rules::Finding finding;
    finding.severity = rules::Severity::kError;
    finding.step = step;
    finding.kind = kind;
    finding.confidence = sources.size() == 1 ? 0.95 : 0.8;
    const Rank& source = ranks_[*sources.begin()];
    std::string what;
    if (sources.size() == 1) finding.rank = *sources.begin();
    if (source.origin && source.origin->certain && source.origin->step <= step) {
      const Origin& origin = *source.origin;
      finding.where = origin.where;
      if (!origin.module.empty()) finding.tensor = origin.module;
      what = fmt::format(": {}{}{}", origin.operation.empty() ? "an operation" : origin.operation,
                         origin.expression.empty() ? "" : " in `" + origin.expression + "`",
                         origin.module.empty() ? "" : " in module " + origin.module);
    } else if (!source.lost_since.empty()) {
      const auto place = source.losses.find(source.lost_since.begin()->first);
      if (place != source.losses.end()) finding.where = place->second;
    }
    finding.message = fmt::format(
        "the first {} that is not finite is {} {} at step {}, before ranks exchange anything{}",
        kind, sources.size() == 1 ? "that of rank" : "those of ranks", fmt::join(sources, ", "),
        step, what);
    for (const auto& [number, rank] : ranks_) {
      if (sources.contains(number) || finding.evidence.size() > kEvidenceMax) continue;
      const auto lost = rank.lost();
      finding.evidence.push_back(
          rank.origin && rank.origin->received
              ? fmt::format("rank {}: its own iteration is finite, the gradient came with step {}",
                            number, rank.origin->step)
          : lost ? fmt::format("rank {}: its loss is not finite from step {} on", number, *lost)
                 : fmt::format("rank {}: its loss was still finite at step {}", number,
                               rank.last_step));
    }
    report(std::move(finding));
  }

  static constexpr size_t kEvidenceMax = 8;

  bool done_ = false;
  size_t world_size_ = 0;
  std::map<int32_t, Rank> ranks_;
  std::set<int32_t> gone_;
};

}  // namespace

WatchEntry nan_source_rank_watch() {
  return {
      {"nan_source_rank",
       rules::Severity::kError,
       "The rank that gave all others a NaN",
       "One rank, or some, had a loss that is not finite one step before the others, or a "
       "gradient that is not finite without any exchange, as the repetition of the iteration "
       "in each rank shows. Losses that recover, overflows that a loss scaler skips, and ranks "
       "that exchange nothing are none.",
       "look at the data and the operation of that rank; the other ranks have got it from there",
       {}},
      &make_watch<NanSourceRank>};
}

}  // namespace paramedic::cluster
