// Ranks that share the work and read the same samples.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/path.h"
#include "cluster/auto_shard.h"
#include "cluster/pass_watch.h"
#include "cluster/shared_samples.h"

namespace paramedic::cluster {
namespace {

// Content alone: so many samples, so few of them alike on one rank, so many known to another one.
constexpr size_t kContentsMin = 64;
constexpr double kOwnTwiceMax = 0.02;
constexpr double kContentsShared = 0.1;

// Samples that may be read twice with nothing wrong: those that fill the last batches up.
int64_t legal_padding(const Pass& pass, const std::vector<int32_t>& ranks) {
  const auto count = static_cast<int64_t>(ranks.size());
  int64_t padding = count - 1;
  for (const int32_t rank : ranks) {
    const PassBegun& begun = pass.ranks.at(rank).begun;
    if (begun.sampler.own || !begun.sampler.replicas) {
      padding = std::max(padding, count * begun.batch_size);
    }
  }
  return padding;
}

bool draws_again(const Pass& pass, const Coverage& coverage, int64_t padding) {
  if (coverage.own_twice > padding) return true;
  return std::any_of(coverage.ranks.begin(), coverage.ranks.end(),
                     [&](int32_t rank) { return pass.ranks.at(rank).begun.sampler.replacement; });
}

// No sampler of these ranks knows of the others.
bool without_sharing(const Pass& pass, const Coverage& coverage) {
  return std::all_of(coverage.ranks.begin(), coverage.ranks.end(), [&](int32_t rank) {
    const PassBegun& begun = pass.ranks.at(rank).begun;
    return !begun.sampler.replicas && !begun.sampler.own && !begun.root;
  });
}

// The only rank with which every other one has samples in common, which have none themselves.
std::optional<int32_t> only_one(const Coverage& coverage) {
  if (coverage.ranks.size() < 3 || coverage.pairwise.empty()) return std::nullopt;
  std::vector<size_t> touched;
  for (size_t i = 0; i < coverage.ranks.size(); ++i) {
    const auto& row = coverage.pairwise[i];
    const auto others = std::count_if(row.begin(), row.end(), [](int64_t n) { return n > 0; });
    if (others > 1) touched.push_back(i);
  }
  if (touched.size() != 1) return std::nullopt;
  return coverage.ranks[touched.front()];
}

std::string names_of(const std::vector<int32_t>& ranks) {
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < std::min(ranks.size(), kShown); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i]);
  }
  return ranks.size() > kShown ? text + ", …" : text;
}

class ShardOverlap : public PassWatch {
 public:
  using PassWatch::PassWatch;

  void on_event(const store::EventRow& row) override {
    PassWatch::on_event(row);
    const auto given = auto_shard_.take(row);
    auto finding = given ? overlap_of(*given) : std::nullopt;
    if (!finding) return;
    // What is read through it says the same once more.
    const std::string loader = loader_at(finding->where);
    if (told_.insert(loader).second) report(std::move(*finding), loader);
  }

  // Where a rank never came to tell what it read, the others are judged by themselves.
  void finish() override {
    for (const auto& [key, pass] : passes().all()) {
      for (const Peers& group : peers().groups(pass, true)) judge(pass, group);
    }
  }

 protected:
  void on_pass(const Pass& pass) override {
    for (const Peers& group : peers().groups(pass)) {
      if (all_have_read(pass, group.ranks)) judge(pass, group);
    }
  }

 private:
  void judge(const Pass& pass, const Peers& group) {
    if (told_.contains(pass.loader)) return;
    const auto coverage = coverage_of(pass, before(pass), group);
    if (coverage) {
      judge_ids(pass, group, *coverage);
    } else {
      judge_contents(pass, group);
    }
  }

  void judge_ids(const Pass& pass, const Peers& group, const Coverage& coverage) {
    const int64_t padding = legal_padding(pass, coverage.ranks);
    if (coverage.shared <= padding || draws_again(pass, coverage, padding)) return;
    rules::Finding finding;
    finding.severity = rules::Severity::kError;
    finding.confidence = 0.97;
    const double share = static_cast<double>(coverage.shared) / static_cast<double>(coverage.read);
    std::optional<int32_t> guilty;
    if (without_sharing(pass, coverage)) {
      finding.message = fmt::format(
          "ranks {} each draw from all {} samples in epoch {}: their loader has no sampler that "
          "shares the data out",
          names_of(coverage.ranks), coverage.size, pass.epoch);
      finding.evidence.push_back("sampler: " +
                                 pass.ranks.at(coverage.ranks[0]).begun.sampler.class_name);
      finding.severity = rules::Severity::kWarning;
    } else {
      guilty = wrong_sampler_rank(pass, group);
      if (guilty) note_numbers(pass, group, finding);
      if (!guilty) guilty = only_one(coverage);
      if (guilty && *guilty < 0) guilty.reset();
      finding.message = fmt::format(
          "{} read samples in epoch {} that another rank reads too: {} of {} reads, among ranks {}",
          guilty ? fmt::format("rank {}", *guilty) : "ranks", pass.epoch, coverage.shared,
          coverage.read, names_of(coverage.ranks));
    }
    finding.evidence.push_back(
        fmt::format("{} samples of {} were read by anybody, padding would be "
                    "at most {}",
                    coverage.distinct, coverage.size, padding));
    if (coverage.modulus > 1) {
      finding.evidence.push_back(
          fmt::format("counted on the ids that {} divides", coverage.modulus));
    }
    finding.evidence.push_back(group.evidence);
    finding.value = share;
    finding.rank = guilty;
    tell(pass, guilty.value_or(coverage.ranks.front()), coverage.by_root, std::move(finding));
  }

  static void note_numbers(const Pass& pass, const Peers& group, rules::Finding& finding) {
    std::string numbers;
    for (const int32_t rank : group.ranks) {
      const auto mine = pass.ranks.find(rank);
      if (mine == pass.ranks.end() || numbers.size() > 200) continue;
      const SamplerFacts& sampler = mine->second.begun.sampler;
      numbers += fmt::format("{}rank {} → {} of {}", numbers.empty() ? "" : ", ", rank,
                             sampler.rank.value_or(-1), sampler.replicas.value_or(-1));
    }
    finding.evidence.push_back("the sampler was told: " + numbers);
  }

  // Where ids do not mean the same, or there are none: by the content of the samples themselves.
  void judge_contents(const Pass& pass, const Peers& group) {
    for (size_t i = 0; i < group.ranks.size(); ++i) {
      for (size_t j = i + 1; j < group.ranks.size(); ++j) {
        if (judge_pair(pass, group, group.ranks[i], group.ranks[j])) return;
      }
    }
  }

  bool judge_pair(const Pass& pass, const Peers& group, int32_t one, int32_t other) {
    const auto mine = pass.ranks.find(one);
    const auto theirs = pass.ranks.find(other);
    if (mine == pass.ranks.end() || theirs == pass.ranks.end()) return false;
    if (!mine->second.read || !theirs->second.read) return false;
    const PassRead& first = *mine->second.read;
    const PassRead& second = *theirs->second.read;
    for (const PassRead* read : {&first, &second}) {
      const auto distinct = static_cast<double>(read->contents.size());
      if (read->contents.size() < kContentsMin) return false;
      if (distinct < (1 - kOwnTwiceMax) * static_cast<double>(read->contents_read)) return false;
    }
    std::vector<uint32_t> both;
    std::set_intersection(first.contents.begin(), first.contents.end(), second.contents.begin(),
                          second.contents.end(), std::back_inserter(both));
    const double share =
        static_cast<double>(both.size()) /
        static_cast<double>(std::min(first.contents.size(), second.contents.size()));
    if (share < kContentsShared) return false;
    rules::Finding finding;
    finding.severity = rules::Severity::kError;
    finding.confidence = 0.9;
    finding.value = share;
    finding.message = fmt::format(
        "ranks {} and {} read the same samples in epoch {}: the content of {} % is equal", one,
        other, pass.epoch, std::lround(share * 100));
    finding.evidence.push_back(
        fmt::format("{} and {} samples were compared by a hash of their bytes",
                    first.contents.size(), second.contents.size()));
    finding.evidence.push_back(group.evidence);
    tell(pass, one, true, std::move(finding));
    return true;
  }

  void tell(const Pass& pass, int32_t rank, bool by_dataset, rules::Finding finding) {
    finding.where = where_shared_out(pass, rank, by_dataset);
    told_.insert(pass.loader);
    report(std::move(finding), pass.loader);
  }

  // As the adapters name a loader.
  static std::string loader_at(const std::optional<rules::Where>& where) {
    if (!where) return "";
    return fmt::format("{}:{}", base_name(where->file), where->line);
  }

  AutoShard auto_shard_;
  std::set<std::string> told_;
};

}  // namespace

WatchEntry shard_overlap_watch() {
  return {{"shard_overlap",
           rules::Severity::kError,
           "Ranks read the same samples",
           "Ranks that average their gradients read the same samples within an epoch, beyond what "
           "fills the last batches up: the batch is smaller than it seems, and other samples may "
           "be read by nobody. Told by the ids that samplers give, where the ranks' data sets are "
           "the same, else by the content of the samples; for tf.data also by the policy OFF and a "
           "source that is the same on all workers. Samplers that draw with replacement, ranks "
           "that share no gradients, and evaluation are not judged.",
           "give the loader a DistributedSampler with the rank and size of the group that averages "
           "gradients; shard a stream by rank and by worker",
           {}},
          &make_watch<ShardOverlap>};
}

}  // namespace paramedic::cluster
