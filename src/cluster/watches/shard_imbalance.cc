// Ranks that read much more, or much less, than the others.

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "cluster/auto_shard.h"
#include "cluster/pass_watch.h"
#include "cluster/shared_samples.h"

namespace paramedic::cluster {
namespace {

// Shards of files or of sentences never come out even: only what is clearly another share is told.
constexpr double kRatioMin = 1.8;
constexpr int64_t kSamplesMin = 32;

class ShardImbalance : public PassWatch {
 public:
  using PassWatch::PassWatch;

  void on_event(const store::EventRow& row) override {
    PassWatch::on_event(row);
    const auto given = auto_shard_.take(row);
    if (auto finding = given ? want_of_files(*given) : std::nullopt) {
      report(std::move(*finding), "files");
    }
  }

 protected:
  void on_pass(const Pass& pass) override {
    for (const Peers& group : peers().groups(pass)) {
      if (all_have_read(pass, group.ranks, true)) judge(pass, group);
    }
  }

 private:
  void judge(const Pass& pass, const Peers& group) {
    std::vector<std::pair<int64_t, int32_t>> counts;
    bool join = false;
    for (const int32_t rank : group.ranks) {
      const RankPass& mine = pass.ranks.at(rank);
      if (!mine.read->exhausted) return;  // a loop that is left by its own count
      counts.emplace_back(mine.read->samples, rank);
      join = join || (mine.begun.sharing && mine.begun.sharing->join);
    }
    std::sort(counts.begin(), counts.end());
    const auto [least, poorest] = counts.front();
    const auto [most, richest] = counts.back();
    const double ratio =
        static_cast<double>(most) / static_cast<double>(std::max<int64_t>(1, least));
    if (most < kSamplesMin || ratio < kRatioMin || !told_.insert(pass.loader).second) return;
    rules::Finding finding;
    // Who wrote join() knows of it.
    finding.severity = join ? rules::Severity::kInfo : rules::Severity::kWarning;
    finding.confidence = 0.9;
    finding.value = ratio;
    finding.threshold = kRatioMin;
    finding.rank = odd_one(counts);
    finding.message =
        fmt::format("rank {} read {} samples in epoch {}, rank {} {}: {:.1f} times as many",
                    richest, most, pass.epoch, poorest, least, ratio);
    finding.evidence.push_back(
        "gradients are averaged with equal weight: samples of the smaller shards count for more");
    finding.evidence.push_back(group.evidence);
    finding.where = where_shared_out(pass, finding.rank.value_or(richest), true);
    report(std::move(finding), pass.loader);
  }

  // The rank at one end that is far from all others, which are near each other.
  static std::optional<int32_t> odd_one(const std::vector<std::pair<int64_t, int32_t>>& counts) {
    if (counts.size() < 3) return std::nullopt;
    const auto far = [](int64_t less, int64_t more) {
      return static_cast<double>(more) >=
             kRatioMin * static_cast<double>(std::max<int64_t>(1, less));
    };
    const size_t last = counts.size() - 1;
    const bool low = far(counts[0].first, counts[1].first);
    const bool high = far(counts[last - 1].first, counts[last].first);
    if (low == high) return std::nullopt;
    if (low && far(counts[1].first, counts[last].first)) return std::nullopt;
    if (high && far(counts[0].first, counts[last - 1].first)) return std::nullopt;
    return low ? counts[0].second : counts[last].second;
  }

  AutoShard auto_shard_;
  std::set<std::string> told_;
};

}  // namespace

WatchEntry shard_imbalance_watch() {
  return {{"shard_imbalance",
           rules::Severity::kWarning,
           "Ranks read very different numbers of samples",
           "Within an epoch one rank that shares the work reads at least 1.8 times as many samples "
           "as another one (under join() it is told as info), or tf.data shares files out and has "
           "fewer of them than workers.",
           "share the samples out evenly, or weigh each rank's loss by its number of samples",
           {}},
          &make_watch<ShardImbalance>};
}

}  // namespace paramedic::cluster
