#include "cluster/replica_rows.h"

#include <charconv>
#include <utility>

#include "base/json.h"
#include "store/members.h"

namespace paramedic::cluster {
namespace {

constexpr size_t kHexDigits = 16;

Result<Json> parse_object(const std::string& json, const char* what) {
  PARAMEDIC_ASSIGN(Json parsed, parse_json(json, what));
  if (!parsed.is_object()) return invalid_argument(std::string(what) + " is no object");
  return parsed;
}

Result<std::vector<uint64_t>> numbers_of(const Json& json, const char* key) {
  const std::string text = string_or(json, key, "");
  std::vector<uint64_t> numbers(text.size() / kHexDigits);
  if (text.size() % kHexDigits != 0 || numbers.size() > kReplicaTensorsMax) {
    return invalid_argument(std::string("fingerprints: `") + key + "` has " +
                            std::to_string(text.size()) + " digits");
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    const char* begin = text.data() + i * kHexDigits;
    const auto [end, error] = std::from_chars(begin, begin + kHexDigits, numbers[i], 16);
    if (error != std::errc() || end != begin + kHexDigits) {
      return invalid_argument(std::string("fingerprints: `") + key + "` is not hexadecimal");
    }
  }
  return numbers;
}

template <typename T>
std::vector<T> list_of(const Json& json, const char* key) {
  std::vector<T> values;
  const auto found = json.find(key);
  if (found == json.end() || !found->is_array()) return values;
  for (const Json& item : *found) {
    if (values.size() > kReplicaTensorsMax) break;
    if constexpr (std::is_same_v<T, std::string>) {
      if (item.is_string()) values.push_back(item.get<std::string>());
    } else {
      if (item.is_number_integer()) values.push_back(item.get<T>());
    }
  }
  return values;
}

}  // namespace

Result<ReplicaTensors> parse_replica_tensors(const std::string& json) {
  PARAMEDIC_ASSIGN(const Json parsed, parse_object(json, "event replica_tensors"));
  ReplicaTensors tensors;
  tensors.optimizer = string_or(parsed, "optimizer", "");
  tensors.world_size = static_cast<int32_t>(integer_or(parsed, "world_size", 1));
  tensors.names = list_of<std::string>(parsed, "names");
  tensors.elements = list_of<int64_t>(parsed, "elements");
  tensors.flags = string_or(parsed, "flags", "");
  const auto ranks = parsed.find("ranks");
  if (ranks != parsed.end()) {
    tensors.ranks = store::ranks_of(*ranks).value_or(std::vector<int32_t>{});
  }
  tensors.averaging = bool_or(parsed, "averaging", false);
  const size_t count = tensors.names.size();
  if (count > kReplicaTensorsMax || tensors.elements.size() != count ||
      tensors.flags.size() != count) {
    return invalid_argument("event replica_tensors: names, elements and flags do not match");
  }
  return tensors;
}

Result<Look> parse_fingerprints(const std::string& json) {
  PARAMEDIC_ASSIGN(const Json parsed, parse_object(json, "event fingerprints"));
  Look look;
  look.optimizer = string_or(parsed, "optimizer", "");
  look.count = integer_or(parsed, "count", 0);
  PARAMEDIC_ASSIGN(look.before, numbers_of(parsed, "before"));
  PARAMEDIC_ASSIGN(look.gradients, numbers_of(parsed, "gradients"));
  PARAMEDIC_ASSIGN(look.after, numbers_of(parsed, "after"));
  PARAMEDIC_ASSIGN(const std::vector<uint64_t> state, numbers_of(parsed, "state"));
  PARAMEDIC_ASSIGN(const std::vector<uint64_t> buffers, numbers_of(parsed, "buffers"));
  if (!state.empty()) look.state = state[0];
  if (!buffers.empty()) look.buffers = buffers[0];
  return look;
}

Result<std::vector<RankBranch>> parse_rank_branches(const std::string& json) {
  PARAMEDIC_ASSIGN(const Json parsed, parse_object(json, "event rank_branches"));
  std::vector<RankBranch> branches;
  const auto listed = parsed.find("branches");
  if (listed == parsed.end() || !listed->is_array()) return branches;
  for (const Json& item : *listed) {
    if (branches.size() >= kRankBranchesMax) break;
    if (!item.is_object()) continue;
    RankBranch branch;
    if (const auto where = item.find("where"); where != item.end() && where->is_object()) {
      branch.where = {string_or(*where, "file", ""),
                      static_cast<int32_t>(integer_or(*where, "line", 0)),
                      string_or(*where, "function", "")};
    }
    branch.kinds = list_of<std::string>(item, "kinds");
    branch.of_rank = bool_or(item, "of_rank", false);
    const auto taken = item.find("taken");
    if (taken != item.end() && taken->is_boolean()) branch.taken = taken->get<bool>();
    branches.push_back(std::move(branch));
  }
  return branches;
}

}  // namespace paramedic::cluster
