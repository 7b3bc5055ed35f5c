// Shuffling that gives the same order in each epoch.

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "cluster/pass_watch.h"
#include "cluster/shared_samples.h"

namespace paramedic::cluster {
namespace {

constexpr int64_t kSamplesMin = 8;  // fewer come in the same order by chance

bool is_shuffled(const SamplerFacts& sampler) { return sampler.shuffle.value_or(false); }

class EpochOrderRepeats : public PassWatch {
 public:
  using PassWatch::PassWatch;

 protected:
  void on_pass(const Pass& pass) override {
    const Pass* last = before(pass);
    const auto ranks = static_cast<int32_t>(pass.ranks.size());
    if (last == nullptr || told_.contains(pass.loader) || ranks < 2) return;
    if (ranks < peers().world_size() && !is_group(pass)) return;
    std::vector<int32_t> repeating;
    for (const auto& [rank, mine] : pass.ranks) {
      const auto then = last->ranks.find(rank);
      if (!mine.read || !mine.read->over || then == last->ranks.end() || !then->second.read) return;
      if (repeats(mine, then->second)) repeating.push_back(rank);
    }
    if (!repeating.empty()) tell(pass, repeating);
  }

 private:
  [[nodiscard]] bool is_group(const Pass& pass) const {
    const auto groups = peers().groups(pass);
    return std::any_of(groups.begin(), groups.end(),
                       [&](const Peers& group) { return group.ranks.size() == pass.ranks.size(); });
  }

  static bool repeats(const RankPass& now, const RankPass& then) {
    const PassRead& read = *now.read;
    return is_shuffled(now.begun.sampler) && read.samples >= kSamplesMin && !read.order.empty() &&
           read.samples == then.read->samples && read.order == then.read->order;
  }

  void tell(const Pass& pass, const std::vector<int32_t>& repeating) {
    told_.insert(pass.loader);
    const SamplerFacts& sampler = pass.ranks.at(repeating.front()).begun.sampler;
    const bool all = repeating.size() == pass.ranks.size();
    rules::Finding finding;
    finding.severity = rules::Severity::kWarning;
    finding.confidence = 0.97;
    if (repeating.size() == 1) finding.rank = repeating.front();
    finding.message = fmt::format(
        "the samples of epoch {} come in the order of epoch {} on {}, though the loader shuffles",
        pass.epoch, pass.epoch - 1,
        all ? std::string("all ranks")
            : fmt::format("{} of {} ranks", repeating.size(), pass.ranks.size()));
    finding.evidence.push_back("sampler: " + sampler.class_name);
    if (sampler.epoch) {
      finding.evidence.push_back(fmt::format("the sampler's epoch was {} in both", *sampler.epoch));
    }
    finding.where = where_shared_out(pass, repeating.front(), false);
    report(std::move(finding), pass.loader);
  }

  std::set<std::string> told_;
};

}  // namespace

WatchEntry epoch_order_repeats_watch() {
  return {{"epoch_order_repeats",
           rules::Severity::kWarning,
           "The same order of samples in each epoch",
           "A sampler that shuffles gave exactly the same ids in the same order in two epochs that "
           "follow each other. A DistributedSampler shuffles by its seed and its epoch, which only "
           "set_epoch moves on.",
           "call sampler.set_epoch(epoch) at the beginning of each epoch",
           {}},
          &make_watch<EpochOrderRepeats>};
}

}  // namespace paramedic::cluster
