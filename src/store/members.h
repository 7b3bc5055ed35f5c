#pragma once
// The ranks of a process group. All ranks of a job tell the same list, so it is told as ranges
// ("0-9999") and kept once: copies share it. A value, as cheap to copy as a pointer.

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace paramedic::store {

class Members {
 public:
  Members() = default;
  Members(std::initializer_list<int32_t> ranks) : Members(std::vector<int32_t>(ranks)) {}
  // Ascending; `ranks` is in any order.
  explicit Members(std::vector<int32_t> ranks);

  [[nodiscard]] const std::vector<int32_t>& list() const { return ranks_ ? *ranks_ : kNone; }
  [[nodiscard]] auto begin() const { return list().begin(); }
  [[nodiscard]] auto end() const { return list().end(); }
  [[nodiscard]] size_t size() const { return list().size(); }
  [[nodiscard]] bool empty() const { return list().empty(); }
  [[nodiscard]] int32_t front() const { return list().front(); }
  // The same for copies of one object, as long as one of them lives; null for no members.
  [[nodiscard]] const void* identity() const { return ranks_.get(); }

  friend bool operator==(const Members& a, const Members& b) {
    return a.ranks_ == b.ranks_ || a.list() == b.list();
  }
  friend bool operator<(const Members& a, const Members& b) {
    return a.ranks_ != b.ranks_ && a.list() < b.list();
  }

 private:
  static inline const std::vector<int32_t> kNone;
  // Shared by all processes that tell the same list; nobody changes it.
  std::shared_ptr<const std::vector<int32_t>> ranks_;
};

// Gives equal lists one object. One thread.
class MembersBook {
 public:
  Members share(std::vector<int32_t> ranks);

 private:
  std::multimap<size_t, Members> by_hash_;
};

// What an event says of ranks: a text of ranges, "0-7,16,32-62:2", the last of which means every
// second rank from 32 to 62, or an array. Ascending, each once. Nothing when it is neither, or
// names more than 100,000.
std::optional<std::vector<int32_t>> ranks_of(const nlohmann::ordered_json& told);

}  // namespace paramedic::store
