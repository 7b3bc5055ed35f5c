#include "cluster/auto_shard.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/json.h"

namespace paramedic::cluster {
namespace {

constexpr size_t kCallsMax = 64;  // not complete ones
constexpr size_t kRanksMax = 100'000;

std::string ranks_of(const GivenByAll& given) {
  constexpr size_t kShown = 8;
  std::vector<int32_t> ranks;
  for (const auto& [rank, dataset] : given.datasets) {
    if (ranks.size() < kShown) ranks.push_back(rank);
  }
  return fmt::format("{}{}", fmt::join(ranks, ", "), given.datasets.size() > kShown ? ", …" : "");
}

GivenDataset dataset_of(const Json& json) {
  GivenDataset dataset;
  dataset.policy = string_or(json, "policy", "");
  dataset.source = string_or(json, "source", "");
  dataset.print = string_or(json, "print", "");
  dataset.count = integer_or(json, "count", -1);
  dataset.shuffled = bool_or(json, "shuffled", false);
  dataset.sharded = bool_or(json, "sharded", false);
  if (const auto where = json.find("where"); where != json.end() && where->is_object()) {
    dataset.where = {string_or(*where, "file", ""),
                     static_cast<int32_t>(integer_or(*where, "line", 0)),
                     string_or(*where, "function", "")};
  }
  return dataset;
}

rules::Finding finding_about(const GivenByAll& given) {
  rules::Finding finding;
  const GivenDataset& first = given.datasets.begin()->second;
  if (first.where.line > 0) finding.where = first.where;
  finding.stage = "start";
  return finding;
}

}  // namespace

std::optional<GivenByAll> AutoShard::take(const store::EventRow& row) {
  if (row.kind != "distributed_dataset") return std::nullopt;
  const auto json = parse_json(row.json, "event distributed_dataset");
  if (!json.ok() || !json->is_object()) return std::nullopt;
  const int64_t number = integer_or(*json, "number", -1);
  const auto workers = json->find("workers");
  if (number < 0 || workers == json->end() || !workers->is_array()) return std::nullopt;
  if (workers->size() < 2 || workers->size() > kRanksMax) return std::nullopt;
  if (given_.size() >= kCallsMax && !given_.contains(number)) given_.erase(given_.begin());
  auto& datasets = given_[number];
  datasets[row.origin.rank] = dataset_of(*json);
  for (const Json& worker : *workers) {
    if (!worker.is_number_integer() || !datasets.contains(worker.get<int32_t>())) {
      return std::nullopt;
    }
  }
  GivenByAll given{number, std::move(datasets)};
  given_.erase(number);
  return given;
}

std::optional<rules::Finding> overlap_of(const GivenByAll& given) {
  const GivenDataset& first = given.datasets.begin()->second;
  bool shuffled = false;
  for (const auto& [rank, dataset] : given.datasets) {
    if (dataset.policy != "OFF" || dataset.sharded || dataset.print.empty()) return std::nullopt;
    if (dataset.print != first.print) return std::nullopt;
    shuffled = shuffled || dataset.shuffled;
  }
  rules::Finding finding = finding_about(given);
  // In an order of its own each worker draws from the same samples, which may be meant.
  finding.severity = shuffled ? rules::Severity::kWarning : rules::Severity::kError;
  finding.confidence = shuffled ? 0.8 : 0.95;
  finding.message = fmt::format(
      "ranks {} each read all {} {} of one data set: its auto_shard_policy is OFF, and nothing "
      "else "
      "shares it out",
      ranks_of(given), first.count, first.source == "files" ? "files" : "samples");
  finding.evidence.emplace_back(
      "rests on the configuration of the data sets and on a hash of their source, which is equal");
  finding.fix =
      "leave the policy at AUTO or set it to DATA; or give each worker its part by "
      "dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)";
  return finding;
}

std::optional<rules::Finding> want_of_files(const GivenByAll& given) {
  const auto workers = static_cast<int64_t>(given.datasets.size());
  const GivenDataset& first = given.datasets.begin()->second;
  for (const auto& [rank, dataset] : given.datasets) {
    if (dataset.policy != "FILE" || dataset.source != "files") return std::nullopt;
    if (dataset.count != first.count) return std::nullopt;
  }
  if (first.count < 1 || first.count >= workers) return std::nullopt;
  rules::Finding finding = finding_about(given);
  finding.severity = rules::Severity::kError;
  finding.confidence = 0.95;
  finding.value = static_cast<double>(first.count);
  finding.threshold = static_cast<double>(workers);
  finding.message = fmt::format(
      "auto_shard_policy FILE has {} file{} for {} workers: {} of them would have no data",
      first.count, first.count == 1 ? "" : "s", workers, workers - first.count);
  finding.evidence.emplace_back("rests on the configuration of the data sets");
  finding.fix = "write as many files as there are workers or more, or set the policy to DATA";
  return finding;
}

}  // namespace paramedic::cluster
