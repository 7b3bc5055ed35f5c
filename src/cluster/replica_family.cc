#include "cluster/replica_family.h"

#include <algorithm>
#include <iterator>
#include <string>

namespace paramedic::cluster {
namespace {

// Steps that wait for a rank; beyond it the oldest are given up.
constexpr size_t kStepsMax = 256;
// Looks that have to show a difference before it counts: one may be a look at another moment.
constexpr int64_t kPartedSteps = 2;
// The same where only the past says that copies are meant, and they may meet again.
constexpr int64_t kPartedStepsUnsure = 4;
// Compared steps without which "never" means little.
constexpr int64_t kNeverSteps = 8;
// Element sizes are not told; most gradients take at least two bytes.
constexpr uint64_t kGradientBytesMin = 2;

uint64_t value_at(const Look& look, std::vector<uint64_t> Look::* values, size_t tensor) {
  const std::vector<uint64_t>& all = look.*values;
  return tensor < all.size() ? all[tensor] : 0;
}

template <typename Looks>
bool equal_at(const Looks& looks, std::vector<uint64_t> Look::* values, size_t tensor) {
  const uint64_t first = value_at(looks.begin()->second, values, tensor);
  return std::all_of(looks.begin(), looks.end(), [&](const auto& entry) {
    return value_at(entry.second, values, tensor) == first;
  });
}

// Ranks by what they hold of a tensor, the largest group first.
template <typename Looks>
std::vector<std::vector<int32_t>> groups_at(const Looks& looks,
                                            std::vector<uint64_t> Look::* values, size_t tensor) {
  std::map<uint64_t, std::vector<int32_t>> by_value;
  for (const auto& [rank, look] : looks) by_value[value_at(look, values, tensor)].push_back(rank);
  std::vector<std::vector<int32_t>> groups;
  for (auto& [value, ranks] : by_value) groups.push_back(std::move(ranks));
  std::stable_sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
    return a.size() != b.size() ? a.size() > b.size() : a.front() < b.front();
  });
  return groups;
}

std::optional<int32_t> odd_of(const std::vector<std::vector<int32_t>>& groups, size_t ranks) {
  if (groups.size() != 2 || groups[0].size() * 2 <= ranks || groups[1].size() != 1) return {};
  return groups[1].front();
}

}  // namespace

void ReplicaFamily::add(int32_t rank, int64_t step, Look look) {
  steps_[step][rank] = std::move(look);
  while (steps_.size() > kStepsMax) steps_.erase(steps_.begin());
}

void ReplicaFamily::judge(bool last) {
  for (auto step = steps_.begin(); step != steps_.end();) {
    const Looks& looks = step->second;
    const bool complete = looks.size() >= members_.size() || (last && looks.size() > 1);
    if (looks.size() < 2 || !complete) {
      ++step;
      continue;
    }
    judge_step(step->first, looks);
    step = steps_.erase(step);
  }
}

void ReplicaFamily::judge_step(int64_t step, const Looks& looks) {
  const int64_t count = looks.begin()->second.count;
  for (const auto& [rank, look] : looks) {
    // Not the same update: a rank was started again, or has taken more steps than others.
    if (look.count != count || look.before.size() != tensors_.names.size()) return;
  }
  ++compared_;
  if (traffic_covers(looks)) ++traffic_steps_;
  const std::vector<size_t> apart = differing(looks, &Look::before);
  if (apart.empty()) {
    if (parting_ && !tensors_.names.empty()) reunited_ = true;
    judge_equal(step, looks);
    return;
  }
  if (share_gradients(looks, apart)) same_gradients_ = true;
  ++parted_steps_;
  if (!parting_) part(step, looks, apart, &Look::before);
}

void ReplicaFamily::judge_equal(int64_t step, const Looks& looks) {
  const std::optional<double>& loss = looks.begin()->second.loss;
  for (const auto& [rank, look] : looks) {
    // NaN differs from itself: only numbers prove that the data are not the same.
    if (loss && look.loss && (*look.loss < *loss || *look.loss > *loss)) data_differs_ = true;
  }
  const std::vector<uint64_t>& weights = looks.begin()->second.before;
  if (data_differs_ && !equal_weights_.empty() && weights != equal_weights_ && !reunited_) {
    trained_in_step_ = true;
  }
  equal_weights_ = weights;
  equal_step_ = step;
  const std::vector<size_t> gradients = differing(looks, &Look::gradients);
  const std::vector<size_t> updated = differing(looks, &Look::after);
  const bool all_told = std::all_of(looks.begin(), looks.end(),
                                    [](const auto& entry) { return !entry.second.after.empty(); });
  gradients_differed_ = !gradients.empty();
  update_differed_ = all_told && !updated.empty();
  if (data_differs_) weigh_gradients(looks, gradients);
  const auto& first = looks.begin()->second.buffers;
  for (const auto& [rank, look] : looks) {
    if (buffers_step_ < 0 && first && look.buffers && look.buffers != first) buffers_step_ = step;
  }
  if (update_differed_ && !parting_) {
    // The next look will count it; who differs is seen here first.
    part(step, looks, updated, &Look::after);
  }
}

// Different data give the same gradient only where it was reduced.
void ReplicaFamily::weigh_gradients(const Looks& looks, const std::vector<size_t>& apart) {
  if (share_gradients(looks, all_tensors())) ever_same_gradients_ = true;
  if (apart.empty()) return;
  const auto groups = groups_at(looks, &Look::gradients, apart.front());
  // All ranks but one have the same.
  if (looks.size() > 2 && odd_of(groups, looks.size())) same_gradients_ = true;
  // Each rank has its own, and the same of other tensors. What a wrapper leaves out, it leaves out
  // on purpose; and groups of ranks that agree are those of a layer that is split.
  const bool wrapped = tensors_.flags.find('d') != std::string::npos;
  const bool each_alone = groups.size() == looks.size();
  if (!ever_same_gradients_ || !each_alone || wrapped) return;
  // What is forgotten is some tensors of a module; a head or an expert of its own is all of them.
  (routes_samples_ || are_whole_modules(apart) ? own_modules_ : same_gradients_) = true;
}

bool ReplicaFamily::are_whole_modules(const std::vector<size_t>& tensors) const {
  const auto module_of = [](const std::string& name) {
    const size_t dot = name.rfind('.');
    return dot == std::string::npos ? std::string() : name.substr(0, dot);
  };
  std::set<std::string> apart;
  for (const size_t tensor : tensors) apart.insert(module_of(tensors_.names[tensor]));
  const auto parts =
      std::count_if(tensors_.names.begin(), tensors_.names.end(),
                    [&](const std::string& name) { return apart.contains(module_of(name)); });
  return static_cast<size_t>(parts) == tensors.size();
}

void ReplicaFamily::part(int64_t step, const Looks& looks, const std::vector<size_t>& apart,
                         Values values) {
  Parting parting;
  parting.step = step;
  parting.equal_step = equal_step_;
  parting.by = values == &Look::after
                   ? (gradients_differed_ ? PartedBy::kGradients : PartedBy::kUpdate)
                   : cause(step);
  parting.tensor = apart.front();
  parting.tensors = apart.size();
  parting.groups = groups_at(looks, values, parting.tensor);
  parting.odd = odd_of(parting.groups, looks.size());
  parting.gradients_equal = differing(looks, &Look::gradients).empty();
  const auto& first = looks.begin()->second.state;
  for (const auto& [rank, look] : looks) {
    if (first && look.state && look.state != first) parting.state_differs = true;
  }
  parting_ = std::move(parting);
}

std::vector<size_t> ReplicaFamily::differing(const Looks& looks, Values values) const {
  std::vector<size_t> tensors;
  for (size_t tensor = 0; tensor < tensors_.names.size(); ++tensor) {
    if (tensors_.flags[tensor] != 's' && !equal_at(looks, values, tensor)) {
      tensors.push_back(tensor);
    }
  }
  return tensors;
}

std::vector<size_t> ReplicaFamily::all_tensors() const {
  std::vector<size_t> all;
  for (size_t tensor = 0; tensor < tensors_.names.size(); ++tensor) {
    if (tensors_.flags[tensor] != 's') all.push_back(tensor);
  }
  return all;
}

PartedBy ReplicaFamily::cause(int64_t step) const {
  if (equal_step_ < 0) return PartedBy::kInitial;
  return step == equal_step_ + 1 ? PartedBy::kEdit : PartedBy::kUnseen;
}

bool ReplicaFamily::share_gradients(const Looks& looks, const std::vector<size_t>& tensors) const {
  int64_t all = 0;
  int64_t shared = 0;
  for (const size_t tensor : tensors) {
    all += tensors_.elements[tensor];
    const uint64_t gradient = value_at(looks.begin()->second, &Look::gradients, tensor);
    if (gradient != 0 && equal_at(looks, &Look::gradients, tensor)) {
      shared += tensors_.elements[tensor];
    }
  }
  return shared * 2 >= all && shared > 0;
}

uint64_t ReplicaFamily::bytes_of_all() const {
  uint64_t elements = 0;
  for (size_t i = 0; i < tensors_.elements.size(); ++i) {
    if (tensors_.flags[i] != 's') elements += static_cast<uint64_t>(tensors_.elements[i]);
  }
  return std::max<uint64_t>(1, elements * kGradientBytesMin);
}

bool ReplicaFamily::traffic_covers(const Looks& looks) const {
  const uint64_t needed = bytes_of_all();
  return std::all_of(looks.begin(), looks.end(),
                     [&](const auto& entry) { return entry.second.traffic_bytes >= needed; });
}

bool ReplicaFamily::is_desync(bool last) const {
  if (!parting_ || tensors_.averaging) return false;
  const bool wrapped = tensors_.flags[parting_->tensor] == 'd';
  const int64_t needed = wrapped || same_gradients_ ? kPartedSteps : kPartedStepsUnsure;
  if (!last && parted_steps_ < needed) return false;
  // Nothing but a fault gives different weights the same gradients.
  if (same_gradients_) return true;
  if (reunited_) return false;
  if (wrapped) return true;
  if (own_modules_) return false;
  // Gradients that are no longer reduced may be averaging that has begun: its end is waited for.
  if (parting_->by == PartedBy::kGradients && !parting_->odd && !last) return false;
  // Traffic of the size of the gradients may carry something else: of ranks that began as copies,
  // on data of their own, it does not.
  const bool reduced = parting_->equal_step >= 0 && data_differs_ && traffic_steps_ == compared_;
  return trained_in_step_ || reduced;
}

bool ReplicaFamily::never_synchronised() const {
  return parting_ && parting_->equal_step >= 0 && parting_->by == PartedBy::kGradients &&
         data_differs_ && !reunited_ && !trained_in_step_ && !same_gradients_ &&
         !ever_same_gradients_ && !exchanges_all_ && !tensors_.averaging &&
         parted_steps_ >= kNeverSteps;
}

}  // namespace paramedic::cluster
