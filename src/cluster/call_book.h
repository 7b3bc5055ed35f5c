#pragma once
// What the ranks of a job called in their groups, as dumps of flight recorders or a stored run tell
// it, in the fewest bytes: 10,000 ranks with 2,000 calls each are 160 MB. Calls have the numbers of
// the teller: a recorder's `collective_seq_id`, or Paramedic's own. One thread.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cluster/compare.h"
#include "cluster/flight_dump.h"
#include "cluster/job.h"

namespace paramedic::cluster {

// A send or receive that has not returned.
struct OpenTransfer {
  int32_t peer = 0;
  bool is_send = false;
  uint32_t signature = kUnknownSignature;
  uint32_t site = 0;
  int64_t since_ns = 0;
};

// The calls of one rank in one group; `calls.left` is the first one that has not returned.
struct BookedCalls {
  RankCalls calls;
  std::vector<uint32_t> sites;  // as many as calls.signatures
  int64_t open_since_ns = 0;    // when calls.left was entered; 0 = not known
  // Whether its calls can be compared: not when all that it told has been overwritten.
  bool is_known = true;
  std::vector<OpenTransfer> transfers;
};

struct BookedGroup {
  std::string name;
  std::string description;
  std::vector<int32_t> members;  // ascending; empty when nobody tells
  std::map<int32_t, BookedCalls> ranks;

  // "default_pg", else the name.
  [[nodiscard]] const std::string& label() const {
    return description.empty() ? name : description;
  }
};

class CallBook {
 public:
  // Each rank once.
  void add(const FlightDump& dump);
  // What the ranks of a run have told; with each, when it was last heard of.
  void add(const Job& job, const std::map<int32_t, int64_t>& ranks);
  // After the last one: groups that some ranks told without their members find those of others.
  void settle();

  [[nodiscard]] const std::vector<BookedGroup>& groups() const { return groups_; }
  // All calls of each rank in the order in which it made them, whatever the group; numbers count
  // what the process recorded. Equal signatures: the same call in groups of one kind. Only of dumps
  // that number their entries.
  [[nodiscard]] const std::vector<BookedCalls>& programs() const { return programs_; }
  // Who told something, and when last (0: not known).
  [[nodiscard]] const std::map<int32_t, int64_t>& ranks() const { return ranks_; }
  // Of the format of dumps, with the ranks that wrote it.
  [[nodiscard]] const std::map<std::string, std::vector<int32_t>>& versions() const {
    return versions_;
  }
  // "all_reduce of float32 [64, 10]".
  [[nodiscard]] const std::string& text(uint32_t signature) const {
    return signatures_[signature].text;
  }
  // Whether no rank can return from it before all have come: an all_reduce, but no broadcast.
  [[nodiscard]] bool needs_all(uint32_t signature) const {
    return signatures_[signature].needs_all;
  }
  [[nodiscard]] const store::CallSite& site(uint32_t id) const { return sites_[id]; }
  [[nodiscard]] uint64_t calls() const { return calls_; }

 private:
  struct KnownSignature {
    std::string text;
    bool needs_all = false;
  };

  BookedGroup& group_of(const FlightGroup& group);
  uint32_t intern(const std::string& key, const std::string& text, bool needs_all);
  uint32_t intern_call(const FlightCall& call);
  uint32_t intern_site(const store::CallSite& site);
  void add_program(const FlightDump& dump, const std::vector<uint32_t>& signatures,
                   const std::vector<uint32_t>& sites);
  uint32_t both(uint32_t first, uint32_t second);
  void append(BookedCalls& booked, const FlightEntry& entry, uint32_t signature, uint32_t site);
  void add_track(const Job& job, BookedGroup& group, int32_t rank, const Track& track);
  void add_frontier(const Job& job, int32_t rank);
  void find_members();
  void add_transfer(BookedGroup& group, int32_t rank, const FlightCall& call, OpenTransfer made);

  std::vector<BookedGroup> groups_;
  std::vector<BookedCalls> programs_;
  std::unordered_map<std::string, size_t> group_ids_;  // by name and members
  std::map<int32_t, int64_t> ranks_;
  std::set<int32_t> whole_;  // ranks of which nothing has been overwritten
  std::map<std::string, std::vector<int32_t>> versions_;
  std::vector<KnownSignature> signatures_{{"an unknown call", false}};  // kUnknownSignature first
  std::unordered_map<std::string, uint32_t> signature_ids_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> pairs_;
  std::vector<store::CallSite> sites_{store::CallSite{}};
  std::map<std::pair<std::string, int32_t>, uint32_t> site_ids_;
  uint64_t calls_ = 0;
};

}  // namespace paramedic::cluster
