// Samples of the data set that no rank reads.

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "cluster/pass_watch.h"
#include "cluster/shared_samples.h"

namespace paramedic::cluster {
namespace {

// Samples that may be left out with nothing wrong: the last ones that do not come out even.
int64_t legal_tail(const Pass& pass, const std::vector<int32_t>& ranks) {
  int64_t tail = 0;
  bool drops = false;
  for (const int32_t rank : ranks) {
    const PassBegun& begun = pass.ranks.at(rank).begun;
    if (begun.drop_last) tail += begun.batch_size - 1;
    drops = drops || begun.sampler.drop_last || begun.sampler.own;
  }
  return drops ? tail + static_cast<int64_t>(ranks.size()) - 1 : tail;
}

// Whether all samples are meant to be read: by a sampler that divides them, each once.
bool meant_to_cover(const Pass& pass, const Peers& group) {
  return std::all_of(group.ranks.begin(), group.ranks.end(), [&](int32_t rank) {
    const RankPass& mine = pass.ranks.at(rank);
    const SamplerFacts& sampler = mine.begun.sampler;
    return mine.read->exhausted && sampler.replicas && !sampler.replacement && !sampler.part;
  });
}

class ShardMissing : public PassWatch {
 public:
  using PassWatch::PassWatch;

 protected:
  void on_pass(const Pass& pass) override {
    for (const Peers& group : peers().groups(pass)) {
      if (!all_have_read(pass, group.ranks, true) || !meant_to_cover(pass, group)) continue;
      const auto coverage = coverage_of(pass, before(pass), group);
      // What is read twice is told as shard_overlap, which says how much that leaves out.
      if (!coverage || coverage->by_root || coverage->ranks.size() != group.ranks.size()) continue;
      if (coverage->shared > static_cast<int64_t>(group.ranks.size())) continue;
      judge(pass, group, *coverage);
    }
  }

 private:
  void judge(const Pass& pass, const Peers& group, const Coverage& coverage) {
    const int64_t ids = (coverage.size + coverage.modulus - 1) / coverage.modulus;
    const int64_t missing = ids - coverage.distinct;
    if (missing <= legal_tail(pass, group.ranks)) return;
    // A sampler of the job's own may read a part of the data today and another one tomorrow.
    const RankPass& first = pass.ranks.at(group.ranks.front());
    if (first.begun.sampler.own && !missed_before_too(pass, group, coverage)) return;
    if (!told_.insert(pass.loader).second) return;
    rules::Finding finding;
    finding.severity = rules::Severity::kError;
    finding.confidence = 0.95;
    finding.value = static_cast<double>(missing) / static_cast<double>(ids);
    finding.message = fmt::format("{} of {} samples were read by no rank in epoch {} ({:.0f} %)",
                                  missing, ids, pass.epoch, 100.0 * *finding.value);
    const auto peers = static_cast<int64_t>(group.ranks.size());
    if (const auto replicas = first.begun.sampler.replicas; replicas != peers) {
      finding.evidence.push_back(
          fmt::format("the sampler divides the data by {}, and {} ranks share the work",
                      replicas.value_or(0), peers));
    }
    if (coverage.modulus > 1) {
      finding.evidence.push_back(
          fmt::format("counted on the ids that {} divides", coverage.modulus));
    }
    finding.evidence.push_back(group.evidence);
    finding.rank = reads_least(pass, group);
    finding.where = where_shared_out(pass, finding.rank.value_or(group.ranks.front()), false);
    report(std::move(finding), pass.loader);
  }

  bool missed_before_too(const Pass& pass, const Peers& group, const Coverage& coverage) const {
    const Pass* last = before(pass);
    if (last == nullptr || !all_have_read(*last, group.ranks, true)) return false;
    const auto then = coverage_of(*last, nullptr, group);
    return then && then->distinct == coverage.distinct;
  }

  // The only rank that reads less than the others.
  static std::optional<int32_t> reads_least(const Pass& pass, const Peers& group) {
    std::vector<std::pair<int64_t, int32_t>> counts;
    for (const int32_t rank : group.ranks) {
      counts.emplace_back(pass.ranks.at(rank).read->samples, rank);
    }
    std::sort(counts.begin(), counts.end());
    if (counts.size() < 3 || counts[1].first != counts.back().first) return std::nullopt;
    if (counts[0].first + pass.ranks.at(counts[0].second).begun.batch_size >= counts[1].first) {
      return std::nullopt;
    }
    return counts[0].second;
  }

  std::set<std::string> told_;
};

}  // namespace

WatchEntry shard_missing_watch() {
  return {{"shard_missing",
           rules::Severity::kError,
           "Samples are read by no rank",
           "After a whole epoch some samples of the data set were read by none of the ranks that "
           "share the work, more than the tail that drop_last leaves out. Judged for samplers that "
           "divide the data by ranks; a subset that is chosen on purpose, and a loop that was left "
           "early, are none.",
           "give the sampler the number of ranks that really share the work, and each rank its own "
           "number",
           {}},
          &make_watch<ShardMissing>};
}

}  // namespace paramedic::cluster
