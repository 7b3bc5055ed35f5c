#pragma once
// The collectives that every rank has called in every group, from rows in whatever order the ranks
// tell them. Bounded: the newest calls of each rank are kept. One thread.

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cluster/compare.h"
#include "store/rows.h"

namespace paramedic::cluster {

// What has to be the same on all ranks of a group for a collective to be right.
struct Signature {
  std::string operation;
  stats::DType dtype = stats::DType::kFloat32;
  std::vector<int64_t> sizes;
  uint64_t bytes = 0;  // 0 with no sizes: nothing is told of what is exchanged
  int32_t peer = -1;
};
// "all_reduce of float32 [64, 10]", "broadcast of float32 [8] from rank 0".
std::string describe(const Signature& signature);

inline const store::CallSite kNoSite;

// One call, as far as it was told. There are millions of them: lines are kept once.
struct Call {
  uint32_t signature = kUnknownSignature;
  int64_t told_sequence = -1;  // CollectiveRow::sequence
  const store::CallSite* where = &kNoSite;
  int64_t step = -1;
  bool asynchronous = false;
  int64_t entered_ns = 0;
  int64_t left_ns = 0;  // 0: still inside
};

// The calls of one rank in one group.
struct Track {
  uint64_t ring_id = 0;
  int64_t first = 0;       // number of calls.front() among the rank's collectives of the group
  std::deque<Call> calls;  // collectives, one after another
  std::map<int64_t, Call> transfers;  // sends and receives that are open, by their told sequence
  int64_t next_sequence = 0;          // told sequence that comes next
  bool has_transfers = false;         // it called send or receive as well
  // Rows were lost among sends and receives: how many of them were collectives is not known, and
  // the numbers cannot be compared with those of other ranks.
  bool is_uncertain = false;

  [[nodiscard]] int64_t entered() const { return first + static_cast<int64_t>(calls.size()); }
  // The call that the rank is inside of; null when there is none. One that was started
  // asynchronously keeps nobody.
  [[nodiscard]] const Call* inside() const;
  [[nodiscard]] const Call* at(int64_t number) const;  // null when it is forgotten or to come
};

struct Group {
  std::string name;
  std::string description;
  std::vector<int32_t> ranks;       // its members, ascending
  std::map<int32_t, Track> tracks;  // of the members that have called something

  // For compare.h: calls from the number `from` on, and a few before it as a context. A rank whose
  // numbers are uncertain is left out.
  [[nodiscard]] std::vector<RankCalls> calls(int64_t from) const;
};

class Groups {
 public:
  void take(const store::CollectiveRow& row);
  // `rank` goes on as a new process: what the old one called is forgotten.
  void forget(int32_t rank);

  // By name and members. Addresses stay valid.
  [[nodiscard]] const std::map<std::string, Group>& all() const { return groups_; }
  // The group of that name in which `rank` is; null when nothing was called in it.
  [[nodiscard]] const Group* find(const std::string& name, int32_t rank) const;
  [[nodiscard]] const Signature& signature(uint32_t id) const { return signatures_[id]; }
  // How long this call took at most, over all ranks; 0 before the first one has returned.
  [[nodiscard]] int64_t longest_ns(uint32_t signature) const;
  // Changes with every row.
  [[nodiscard]] uint64_t rows() const { return rows_; }

 private:
  // A group as it was told by one process or more, whose list of members is kept.
  struct Told {
    store::Members members;
    std::vector<Group*> groups;
  };

  Group* group_of(const store::GroupInfo& told);
  Track& track_of(Group& group, const store::Origin& origin);
  [[nodiscard]] size_t calls_max() const;
  const store::CallSite* site(const store::CollectiveRow& row);
  uint32_t intern(const store::CollectiveRow& row);
  void enter(Track& track, const store::CollectiveRow& row);
  void append(Track& track, Call call) const;
  void leave(Track& track, const store::CollectiveRow& row);

  std::map<std::string, Group> groups_;
  std::unordered_map<const void*, Told> told_;  // by identity of the members
  size_t tracks_ = 0;                           // of all groups
  std::set<store::CallSite> sites_;
  std::map<std::string, uint32_t> signature_ids_;
  std::vector<Signature> signatures_{Signature{}};  // of kUnknownSignature first
  std::map<uint32_t, int64_t> longest_ns_;
  uint64_t rows_ = 0;
};

// Operations whose ranks may give inputs of different sizes.
bool may_differ_in_size(std::string_view operation);

// "send", "recv" and their kin: told between two ranks, so their order is no matter of the group.
bool is_transfer(const std::string& operation);

}  // namespace paramedic::cluster
