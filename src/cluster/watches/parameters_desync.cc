// Copies of a model that have parted: what the ranks hold is compared outside of the job.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/json.h"
#include "cluster/replica_family.h"
#include "cluster/suspect_lines.h"
#include "cluster/watch.h"

namespace paramedic::cluster {
namespace {

constexpr size_t kFamiliesMax = 64;
constexpr size_t kRanksMax = 100'000;
constexpr size_t kGroupsTold = 4;

// What is known of a rank besides its fingerprints.
struct Rank {
  std::map<std::string, ReplicaFamily*> families;  // by optimizer
  std::vector<RankBranch> branches;
  bool fitted = false;
  std::pair<int64_t, double> loss = {-1, 0};
  std::pair<int64_t, uint64_t> traffic = {-1, 0};
  std::map<std::string, double> rates;          // by the scalar's name
  std::map<std::string, rules::Where> made;     // parameters, optimizers
  std::map<std::string, rules::Where> stepped;  // optimizers
  std::map<std::string, std::string> settings;  // of optimizers, as they were told
  rules::Where loss_line;
  bool data_is_shared_out = false;  // by a DistributedSampler
};

const char* parted_by_text(PartedBy by) {
  switch (by) {
    case PartedBy::kInitial:
      return "they were never equal: the initial weights differ and nothing made them equal";
    case PartedBy::kGradients:
      return "equal weights were updated with different gradients";
    case PartedBy::kUpdate:
      return "equal weights and equal gradients gave different weights: the optimizers differ";
    case PartedBy::kEdit:
      return "they were equal after the update before, and changed between two updates";
    case PartedBy::kUnseen:
      break;
  }
  return "they parted between two looks";
}

class ParametersDesync : public Watch {
 public:
  using Watch::Watch;

  void on_event(const store::EventRow& row) override {
    const int32_t rank = row.origin.rank;
    if (ranks_.size() >= kRanksMax && !ranks_.contains(rank)) return;
    if (row.kind == "fingerprints") {
      take_look(rank, row);
    } else if (row.kind == "replica_tensors") {
      take_tensors(rank, row.json);
    } else if (row.kind == "rank_branches") {
      if (auto branches = parse_rank_branches(row.json); branches.ok()) {
        ranks_[rank].branches = std::move(*branches);
      }
    } else if (row.kind == "fit_started") {
      Rank& known = ranks_[rank];
      // Another model under the same names: nothing of the one before counts for it.
      if (std::exchange(known.fitted, true)) known.families.clear();
    }
  }

  void on_scalar(const store::ScalarRow& row) override {
    const std::string& name = *row.name;
    if (name.starts_with("loss/")) {
      if (loss_name_.empty()) loss_name_ = name;
      if (name == loss_name_) ranks_[row.origin.rank].loss = {row.origin.step, row.value};
    } else if (name.starts_with("learning_rate/")) {
      ranks_[row.origin.rank].rates[name] = row.value;
    }
  }

  void on_model(const store::ModelRow& row) override {
    Rank& rank = ranks_[row.origin.rank];
    const rules::Where where = {row.file, row.line, row.function};
    if (row.kind == "parameter" || row.kind == "optimizer") rank.made[row.name] = where;
    if (row.kind == "loss" && rank.loss_line.line == 0) rank.loss_line = where;
    if (row.kind != "optimizer" && row.kind != "loader") return;
    const Result<Json> detail = parse_json(row.detail, "detail of a model row");
    if (!detail.ok() || !detail->is_object()) return;
    if (row.kind == "loader") {
      if (string_or(*detail, "sampler", "") == "DistributedSampler") rank.data_is_shared_out = true;
      return;
    }
    if (const auto groups = detail->find("groups"); groups != detail->end()) {
      rank.settings[row.name] = to_text(*groups);
    }
    if (const auto step = detail->find("step"); step != detail->end() && step->is_object()) {
      rank.stepped[row.name] = {string_or(*step, "file", ""),
                                static_cast<int32_t>(integer_or(*step, "line", 0)),
                                string_or(*step, "function", "")};
    }
  }

  void on_collective(const store::CollectiveRow& row) override {
    // Of all ranks only: within a part of them copies are not made equal to the others.
    if (row.left_ns != 0 || std::ssize(row.group->ranks) < world_size_) return;
    if (row.operation.starts_with("all_to_all")) {
      routes_samples_ = true;
      for (const auto& family : families_) family->note_routing();
      return;
    }
    Rank& rank = ranks_[row.origin.rank];
    auto& [step, bytes] = rank.traffic;
    if (std::exchange(step, row.origin.step) != row.origin.step) bytes = 0;
    bytes += row.bytes;
    for (const auto& [optimizer, family] : rank.families) {
      if (family != nullptr) family->note_traffic(bytes);
    }
  }

  void tick(const Moment&) override { judge(false); }
  void finish() override { judge(true); }

 private:
  void take_tensors(int32_t rank, const std::string& json) {
    auto tensors = parse_replica_tensors(json);
    if (!tensors.ok()) return;
    world_size_ = std::max(world_size_, tensors->world_size);
    Rank& known = ranks_[rank];
    ReplicaFamily*& mine = known.families[tensors->optimizer];
    mine = nullptr;
    for (const auto& family : families_) {
      // A family that has been judged began with another model of the same shape.
      const bool open = family->compared() == 0 || !family->members().contains(rank);
      if (open && family->tensors().optimizer == tensors->optimizer &&
          family->tensors().same_model(*tensors)) {
        mine = family.get();
      }
    }
    if (mine == nullptr) {
      if (families_.size() >= kFamiliesMax) return;
      families_.push_back(std::make_unique<ReplicaFamily>(std::move(*tensors)));
      mine = families_.back().get();
      if (routes_samples_) mine->note_routing();
    }
    mine->join(rank);
  }

  void take_look(int32_t rank, const store::EventRow& row) {
    auto look = parse_fingerprints(row.json);
    if (!look.ok()) return;
    Rank& known = ranks_[rank];
    const auto family = known.families.find(look->optimizer);
    if (family == known.families.end() || family->second == nullptr) return;
    const int64_t step = row.origin.step;
    if (known.loss.first == step) look->loss = known.loss.second;
    if (known.traffic.first == step) look->traffic_bytes = known.traffic.second;
    family->second->add(rank, step, std::move(*look));
  }

  void judge(bool last) {
    for (const auto& family : families_) {
      if (reported_.contains(family.get()) || (!last && !is_complete(*family))) continue;
      family->judge(last);
      if (family->is_desync(last)) {
        reported_.insert(family.get());
        tell(*family, rules::Severity::kError);
      } else if (last && family->never_synchronised() && data_is_shared_out(*family)) {
        reported_.insert(family.get());
        tell(*family, rules::Severity::kWarning);
      } else if (last && family->buffers_step() >= 0 && !family->parting()) {
        tell_buffers(*family);
      }
    }
  }

  // Whether all ranks that belong to the family are known.
  [[nodiscard]] bool is_complete(const ReplicaFamily& family) const {
    const auto& wrapped = family.tensors().ranks;
    if (!wrapped.empty()) return family.members().size() >= wrapped.size();
    const auto told = std::count_if(ranks_.begin(), ranks_.end(), [&](const auto& entry) {
      return entry.second.families.contains(family.tensors().optimizer);
    });
    return told >= world_size_;
  }

  [[nodiscard]] bool data_is_shared_out(const ReplicaFamily& family) const {
    return std::all_of(family.members().begin(), family.members().end(),
                       [&](int32_t rank) { return ranks_.at(rank).data_is_shared_out; });
  }

  void tell(const ReplicaFamily& family, rules::Severity severity) {
    const Parting& parting = *family.parting();
    const std::string name = family.tensors().names[parting.tensor];
    rules::Finding finding;
    finding.severity = severity;
    finding.step = parting.step;
    finding.tensor = name;
    finding.kind = "weight";
    finding.value = static_cast<double>(parting.tensors);
    finding.confidence = parting.odd ? 0.97 : 0.9;
    for (size_t i = 0; i < std::min<size_t>(parting.groups.size(), kGroupsTold); ++i) {
      const std::vector<int32_t>& ranks = parting.groups[i];
      finding.evidence.push_back(
          ranks.size() == 1
              ? fmt::format("rank {} alone has its values of {}", ranks.front(), name)
              : fmt::format("ranks {} have the same {}", fmt::join(ranks, ", "), name));
    }
    finding.evidence.emplace_back(parted_by_text(parting.by));
    if (parting.equal_step >= 0) {
      finding.evidence.push_back(
          fmt::format("all were equal at the update of step {}", parting.equal_step));
    }
    if (parting.gradients_equal) {
      finding.evidence.emplace_back("the gradients are equal: they are reduced over the ranks");
    }
    if (parting.state_differs) {
      finding.evidence.emplace_back("the state of the optimizer differs between the ranks as well");
    }
    const SuspectLines lines = suspects_of(family, finding);
    finding.rank = parting.odd ? parting.odd : lines.rank();
    finding.where = place_of(family, lines, finding);
    finding.message = message_of(family, finding);
    report(std::move(finding), family.tensors().optimizer);
  }

  // The lines that fit the way in which copies parted, with the settings that differ.
  SuspectLines suspects_of(const ReplicaFamily& family, rules::Finding& finding) {
    const Parting& parting = *family.parting();
    SuspectLines lines(family.members(), parting.odd);
    for (const int32_t rank : family.members()) lines.add(rank, ranks_[rank].branches);
    const bool rates = differ(family, finding);
    // A wrapper reduces gradients by itself, unless the job goes around it.
    const bool wrapped = family.tensors().flags[parting.tensor] == 'd' && !parting.odd;
    const std::vector<std::string> by_gradients =
        wrapped ? std::vector<std::string>{"bypass", "gradient"}
                : std::vector<std::string>{"gradient", "bypass"};
    switch (parting.by) {
      case PartedBy::kInitial:
        lines.choose({"random", "weights"});
        break;
      case PartedBy::kGradients:
        lines.choose(by_gradients);
        break;
      case PartedBy::kUpdate:
        lines.choose({"rate", "weights"});
        break;
      case PartedBy::kEdit:
        lines.choose({"weights"});
        break;
      case PartedBy::kUnseen:
        lines.choose(rates                     ? std::vector<std::string>{"rate"}
                     : parting.gradients_equal ? std::vector<std::string>{"weights", "rate"}
                                               : by_gradients);
        break;
    }
    return lines;
  }

  // Whether settings of the optimizer differ between the ranks; tells them.
  bool differ(const ReplicaFamily& family, rules::Finding& finding) {
    const std::string& optimizer = family.tensors().optimizer;
    std::map<std::string, std::vector<int32_t>> settings;
    std::map<std::string, std::map<double, std::vector<int32_t>>> rates;
    for (const int32_t rank : family.members()) {
      settings[ranks_[rank].settings[optimizer]].push_back(rank);
      for (const auto& [name, rate] : ranks_[rank].rates) {
        if (name.starts_with("learning_rate/" + optimizer + "/")) rates[name][rate].push_back(rank);
      }
    }
    bool found = settings.size() > 1;
    if (found) {
      finding.evidence.push_back(
          fmt::format("{} was made with different settings on the ranks", optimizer));
    }
    for (const auto& [name, by_rate] : rates) {
      if (by_rate.size() < 2) continue;
      found = true;
      for (const auto& [rate, ranks] : by_rate) {
        finding.evidence.push_back(
            fmt::format("{} is {:.6g} on ranks {}", name, rate, fmt::join(ranks, ", ")));
      }
      break;
    }
    return found;
  }

  std::optional<rules::Where> place_of(const ReplicaFamily& family, const SuspectLines& lines,
                                       const rules::Finding& finding) {
    const Parting& parting = *family.parting();
    const Rank& rank = ranks_[finding.rank.value_or(*family.members().begin())];
    const std::string& optimizer = family.tensors().optimizer;
    const auto known = [](const auto& places, const std::string& name) {
      const auto found = places.find(name);
      return found == places.end() ? rules::Where{} : found->second;
    };
    // A name that stands for several tensors begins with the first.
    const std::string name = finding.tensor->substr(0, finding.tensor->find(' '));
    const rules::Where made = known(rank.made, name);
    if (const auto line = lines.best(parting.by == PartedBy::kInitial ? &made : nullptr)) {
      return line;
    }
    rules::Where where = made;
    if (parting.by != PartedBy::kInitial || made.line == 0) where = known(rank.stepped, optimizer);
    if (parting.by == PartedBy::kUpdate && known(rank.made, optimizer).line != 0) {
      where = known(rank.made, optimizer);
    }
    if (parting.by == PartedBy::kGradients && !parting.odd && rank.loss_line.line != 0) {
      where = rank.loss_line;
    }
    if (where.line == 0) return std::nullopt;
    return where;
  }

  static std::string message_of(const ReplicaFamily& family, const rules::Finding& finding) {
    const Parting& parting = *family.parting();
    const std::string who =
        finding.rank
            ? fmt::format("the weights of rank {} are not those of the other ranks", *finding.rank)
            : "the ranks no longer hold the same weights";
    const std::string since = parting.by == PartedBy::kInitial
                                  ? "from the start"
                                  : fmt::format("since step {}", parting.step);
    const std::string more =
        parting.tensors == 1 ? " differs" : fmt::format(" and {} more differ", parting.tensors - 1);
    return fmt::format("{} {}: {}{}", who, since, *finding.tensor, more);
  }

  void tell_buffers(const ReplicaFamily& family) {
    reported_.insert(&family);
    rules::Finding finding;
    finding.severity = rules::Severity::kInfo;
    finding.step = family.buffers_step();
    finding.kind = "buffer";
    finding.confidence = 0.9;
    finding.message =
        "buffers differ between ranks whose weights are equal, as running statistics of each "
        "rank's "
        "own data do: whoever saves the model decides which of them are kept";
    report(std::move(finding), family.tensors().optimizer + "/buffers");
  }

  int32_t world_size_ = 1;
  bool routes_samples_ = false;  // by all_to_all
  std::string loss_name_;  // the first that was told; losses of other lines are not comparable
  std::map<int32_t, Rank> ranks_;
  std::vector<std::unique_ptr<ReplicaFamily>> families_;
  std::set<const ReplicaFamily*> reported_;
};

}  // namespace

WatchEntry parameters_desync_watch() {
  return {
      {"parameters_desync",
       rules::Severity::kError,
       "Copies of a model that are no longer equal",
       "Fingerprints of weights, gradients and updated weights are taken at the same steps on "
       "all ranks and compared. Copies are meant where DistributedDataParallel wraps the model, "
       "where different weights get the same gradients, or where weights stayed equal through "
       "updates by different data. Shards, models of different shape, averaging now and then, "
       "and ranks that never were in step are none; buffers that differ are told as info.",
       "make all ranks begin with the same weights (DistributedDataParallel, or a broadcast), "
       "and keep whatever changes gradients, weights or the optimizer the same on all of them",
       {}},
      &make_watch<ParametersDesync>};
}

}  // namespace paramedic::cluster
