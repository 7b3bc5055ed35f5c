#include "cluster/peers.h"

#include <algorithm>
#include <optional>

#include "base/json.h"

namespace paramedic::cluster {
namespace {

constexpr size_t kRanksMax = 4096;  // whose parameters are kept
constexpr size_t kShapesMax = 4096;
constexpr size_t kGroupsMax = 4096;
// So many averages of something as large as a gradient are no chance.
constexpr int64_t kAveragedMin = 4;

bool all_begun(const Pass& pass, const std::vector<int32_t>& ranks) {
  return std::all_of(ranks.begin(), ranks.end(),
                     [&](int32_t rank) { return pass.ranks.contains(rank); });
}

}  // namespace

void PeerFinder::on_model(const store::ModelRow& row) {
  if (row.kind != "parameter") return;
  const auto detail = parse_json(row.detail, "a parameter");
  if (!detail.ok() || !detail.value().contains("shape")) return;
  const Json& shape = detail.value()["shape"];
  const int32_t rank = row.origin.rank;
  if (!shape.is_array() || (!shapes_.contains(rank) && shapes_.size() >= kRanksMax)) return;
  auto& shapes = shapes_[rank];
  if (shapes.size() >= kShapesMax) return;
  std::vector<int64_t> sizes;
  int64_t elements = 1;
  for (const Json& size : shape) {
    if (!size.is_number_integer()) return;
    sizes.push_back(size.get<int64_t>());
    elements *= std::max<int64_t>(1, sizes.back());
  }
  // The shape of a loss is no sign of a gradient.
  if (elements > 1) shapes.insert(std::move(sizes));
  parameters_[rank] += elements;
}

void PeerFinder::on_collective(const store::CollectiveRow& row) {
  const bool reduces =
      row.operation.starts_with("all_reduce") || row.operation.starts_with("reduce_scatter");
  if (!reduces || row.left_ns == 0 || row.group == nullptr || row.group->ranks.size() < 2) return;
  const auto shapes = shapes_.find(row.origin.rank);
  if (shapes == shapes_.end()) return;
  int64_t elements = 1;
  for (const int64_t size : row.sizes) elements *= std::max<int64_t>(1, size);
  const bool whole = elements > 1 && elements == parameters_[row.origin.rank];
  if (!whole && !shapes->second.contains(row.sizes)) return;
  if (averages_.size() >= kGroupsMax && !averages_.contains(row.group->ranks)) return;
  Averages& averages = averages_[row.group->ranks];
  ++averages.calls;
  const int64_t step = row.origin.step;
  if (row.origin.rank != row.group->ranks.front() || step <= averages.last_step) return;
  if (averages.steps++ == 0) averages.first_step = step;
  averages.last_step = step;
}

void PeerFinder::on_moment(const Moment& moment) {
  for (const RankProcess& process : moment.processes) {
    world_size_ = std::max(world_size_, process.world_size);
  }
}

std::vector<Peers> PeerFinder::groups(const Pass& pass, bool partial) const {
  std::vector<Peers> groups = by_wrapper(pass);
  if (groups.empty()) groups = by_collectives();
  if (groups.empty()) groups = by_sampler(pass);
  if (!partial) {
    std::erase_if(groups, [&](const Peers& peers) { return !all_begun(pass, peers.ranks); });
  }
  std::erase_if(groups, [](const Peers& peers) { return peers.ranks.size() < 2; });
  return groups;
}

std::vector<Peers> PeerFinder::by_wrapper(const Pass& pass) const {
  std::map<store::Members, bool> joins;
  for (const auto& [rank, mine] : pass.ranks) {
    if (!mine.begun.sharing) continue;
    bool& join = joins.try_emplace(mine.begun.sharing->ranks, false).first->second;
    join = join || mine.begun.sharing->join;
  }
  std::vector<Peers> groups;
  for (const auto& [ranks, join] : joins) {
    groups.push_back({ranks.list(), !join, "their model's gradients are averaged"});
  }
  return groups;
}

// A sampler that divides by ranks says itself that the data is to be shared out. Where its ranks
// come out even, as in dp × tp, those of the same number read the same rightly.
std::vector<Peers> PeerFinder::by_sampler(const Pass& pass) const {
  if (world_size_ == 0 || static_cast<int32_t>(pass.ranks.size()) != world_size_) return {};
  std::optional<int64_t> replicas;
  std::map<int64_t, std::vector<int32_t>> by_number;
  Peers all{{}, false, "their samplers divide the data by ranks"};
  for (const auto& [rank, mine] : pass.ranks) {
    const SamplerFacts& sampler = mine.begun.sampler;
    if (!sampler.replicas || !sampler.rank || *sampler.replicas < 2) return {};
    if (replicas.value_or(*sampler.replicas) != *sampler.replicas) return {};
    replicas = sampler.replicas;
    by_number[*sampler.rank].push_back(rank);
    all.ranks.push_back(rank);
  }
  const size_t even = by_number.begin()->second.size();
  const bool comes_out = static_cast<int64_t>(by_number.size()) == *replicas &&
                         std::all_of(by_number.begin(), by_number.end(), [&](const auto& entry) {
                           return entry.second.size() == even;
                         });
  if (comes_out && even > 1) {
    all.ranks.clear();
    for (const auto& [number, ranks] : by_number) all.ranks.push_back(ranks.front());
    std::sort(all.ranks.begin(), all.ranks.end());
  }
  return {all};
}

std::vector<Peers> PeerFinder::by_collectives() const {
  std::vector<Peers> groups;
  for (const auto& [ranks, averages] : averages_) {
    if (averages.calls < kAveragedMin * static_cast<int64_t>(ranks.size())) continue;
    // Who averages weights once an epoch shares the work too, but nobody waits within the epoch.
    const int64_t span = averages.last_step - averages.first_step + 1;
    const bool in_step = averages.steps >= kAveragedMin && averages.steps * 10 >= span * 9;
    groups.push_back({ranks.list(), in_step, "they average their gradients"});
  }
  return groups;
}

}  // namespace paramedic::cluster
