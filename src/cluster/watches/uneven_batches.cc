// Ranks whose loaders hold different numbers of batches, told before the others wait for ever.

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "cluster/pass_watch.h"
#include "cluster/shared_samples.h"

namespace paramedic::cluster {
namespace {

// After a rank has run out of batches, the others have this long to leave their loops too.
constexpr int64_t kPatienceNs = 8'000'000'000;

using Count = std::pair<int64_t, int32_t>;  // batches, rank

std::string batches_of(const std::vector<Count>& counts) {
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < std::min(counts.size(), kShown); ++i) {
    text += fmt::format("{}rank {}: {}", i == 0 ? "" : ", ", counts[i].second, counts[i].first);
  }
  return counts.size() > kShown ? text + ", …" : text;
}

class UnevenBatches : public PassWatch {
 public:
  using PassWatch::PassWatch;

 protected:
  void on_pass(const Pass& pass) override {
    for (const Peers& group : peers().groups(pass)) {
      if (group.in_step) foresee(pass, group);
    }
  }

  void on_moment(const Moment& moment) override {
    for (const auto& [key, pass] : passes().all()) {
      for (const Peers& group : peers().groups(pass)) {
        if (group.in_step) see(pass, group, moment.time_ns);
      }
    }
  }

 private:
  // From the lengths alone, where every loop ends with its loader.
  void foresee(const Pass& pass, const Peers& group) {
    std::vector<Count> counts;
    std::set<int64_t> steps;
    for (const int32_t rank : group.ranks) {
      const PassBegun& begun = pass.ranks.at(rank).begun;
      if (!begun.batches || begun.loop != "plain") return;
      counts.emplace_back(*begun.batches, rank);
      // Gradients that are gathered over several batches are reduced once for all of them.
      steps.insert(*begun.batches / begun.batches_a_step);
    }
    if (steps.size() < 2) return;
    std::sort(counts.begin(), counts.end());
    tell(pass, group, counts, "its loop ends with its loader on every rank");
  }

  // From what happened: one rank has run out of batches, the others are still in the loop.
  void see(const Pass& pass, const Peers& group, int64_t now_ns) {
    std::vector<Count> counts;
    bool waiting = false;
    int64_t fewest = INT64_MAX;
    int64_t newest_ns = 0;
    for (const int32_t rank : group.ranks) {
      const RankPass& mine = pass.ranks.at(rank);
      const bool over = mine.read && mine.read->over;
      if (over && !mine.read->exhausted) return;
      if (over) {
        fewest = std::min(fewest, mine.read->batches);
        newest_ns = std::max(newest_ns, mine.read->time_ns);
      } else {
        waiting = true;
      }
      counts.emplace_back(over ? mine.read->batches : mine.begun.batches.value_or(-1), rank);
    }
    if (!waiting || newest_ns == 0 || now_ns - newest_ns < kPatienceNs) return;
    // A stream has no length: that it is still read says that it has at least one more.
    for (Count& count : counts) {
      if (count.first < 0) count.first = fewest + 1;
    }
    std::sort(counts.begin(), counts.end());
    if (counts.back().first > fewest) {
      tell(pass, group, counts, "it has run out of them, and the others are still in the loop");
    }
  }

  void tell(const Pass& pass, const Peers& group, const std::vector<Count>& counts,
            const char* evidence) {
    if (!told_.insert(pass.loader).second) return;
    const auto [fewest, poorest] = counts.front();
    rules::Finding finding;
    finding.severity = rules::Severity::kError;
    finding.confidence = 0.95;
    finding.rank = odd_one(counts);
    finding.value = static_cast<double>(counts.back().first - fewest);
    finding.message = fmt::format(
        "rank {} will run {} batches in epoch {}, rank {} {}: from batch {} on the others wait for "
        "its gradients for ever",
        poorest, fewest, pass.epoch, counts.back().second, counts.back().first, fewest);
    finding.evidence.push_back(batches_of(counts));
    finding.evidence.emplace_back(evidence);
    finding.evidence.push_back(group.evidence);
    const int32_t guilty = finding.rank.value_or(poorest);
    finding.where = where_shared_out(pass, guilty, differ(pass, group));
    report(std::move(finding), pass.loader);
  }

  // The only rank whose number is not that of the others.
  static std::optional<int32_t> odd_one(const std::vector<Count>& counts) {
    if (counts.size() < 3) return counts.front().second;
    if (counts[1].first == counts.back().first) return counts.front().second;
    if (counts.front().first == counts[counts.size() - 2].first) return counts.back().second;
    return std::nullopt;
  }

  // Whether the data sets themselves differ: then the line that makes them shares the data out.
  static bool differ(const Pass& pass, const Peers& group) {
    const std::string& first = pass.ranks.at(group.ranks.front()).begun.dataset.print;
    return std::any_of(group.ranks.begin(), group.ranks.end(), [&](int32_t rank) {
      return pass.ranks.at(rank).begun.dataset.print != first;
    });
  }

  std::set<std::string> told_;
};

}  // namespace

WatchEntry uneven_batches_watch() {
  return {{"uneven_batches",
           rules::Severity::kError,
           "Ranks have different numbers of batches",
           "Ranks that average their gradients in every step have loaders of different lengths: "
           "whoever has fewer leaves the loop, and the others wait for its gradients for ever. "
           "Told at the beginning of the epoch where the loop has no other way out, else once a "
           "rank has run out of batches and the others have not left the loop. Quiet under join(), "
           "and where a loop is left by its own count.",
           "use drop_last=True or a DistributedSampler, which pads; or model.join()",
           {}},
          &make_watch<UnevenBatches>};
}

}  // namespace paramedic::cluster
