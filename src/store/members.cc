#include "store/members.h"

#include <charconv>
#include <string_view>

#include "base/in_order.h"
#include "base/json.h"

namespace paramedic::store {
namespace {

constexpr size_t kRanksMax = 100'000;
// Lists that are kept in common; what comes after them is kept as often as it is told.
constexpr size_t kSharedMax = 65'536;

// A number at the beginning of `text`, which it is taken from.
bool take_number(std::string_view& text, int32_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

bool take(std::string_view& text, char sign) {
  if (text.empty() || text.front() != sign) return false;
  text.remove_prefix(1);
  return true;
}

bool take_range(std::string_view& text, std::vector<int32_t>& ranks) {
  int32_t first = 0;
  int32_t stride = 1;
  if (!take_number(text, first)) return false;
  int32_t last = first;
  if (take(text, '-')) {
    if (!take_number(text, last)) return false;
    if (take(text, ':') && !take_number(text, stride)) return false;
  }
  if (stride < 1 || last < first) return false;
  if (static_cast<size_t>((last - first) / stride) >= kRanksMax - ranks.size()) return false;
  for (int64_t rank = first; rank <= last; rank += stride) {
    ranks.push_back(static_cast<int32_t>(rank));
  }
  return true;
}

bool take_ranges(std::string_view text, std::vector<int32_t>& ranks) {
  if (text.empty()) return true;
  do {
    if (!take_range(text, ranks)) return false;
  } while (take(text, ','));
  return text.empty();
}

size_t hash_of(const std::vector<int32_t>& ranks) {
  return std::hash<std::string_view>()(
      {reinterpret_cast<const char*>(ranks.data()), ranks.size() * sizeof(int32_t)});
}

}  // namespace

Members::Members(std::vector<int32_t> ranks) {
  if (ranks.empty()) return;
  put_in_order(ranks);
  ranks_ = std::make_shared<const std::vector<int32_t>>(std::move(ranks));
}

Members MembersBook::share(std::vector<int32_t> ranks) {
  put_in_order(ranks);
  const size_t hash = hash_of(ranks);
  const auto [first, last] = by_hash_.equal_range(hash);
  for (auto known = first; known != last; ++known) {
    if (known->second.list() == ranks) return known->second;
  }
  Members members(std::move(ranks));
  if (by_hash_.size() < kSharedMax) by_hash_.emplace(hash, members);
  return members;
}

std::optional<std::vector<int32_t>> ranks_of(const Json& told) {
  std::vector<int32_t> ranks;
  if (told.is_string()) {
    if (!take_ranges(told.get_ref<const std::string&>(), ranks)) return std::nullopt;
  } else if (told.is_array() && told.size() <= kRanksMax) {
    for (const Json& rank : told) {
      if (!rank.is_number_integer()) return std::nullopt;
      const auto number = rank.get<int64_t>();
      if (number < 0 || number > INT32_MAX) return std::nullopt;
      ranks.push_back(static_cast<int32_t>(number));
    }
  } else {
    return std::nullopt;
  }
  put_in_order(ranks);
  return ranks;
}

}  // namespace paramedic::store
