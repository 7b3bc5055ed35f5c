#pragma once
// What the ranks of one group called, one after another, against each other: who is how far, where
// they part, and by which edit one rank's calls become those of the others. Pure functions; the
// cost is linear in the number of calls, so that 10,000 ranks with 2,000 calls each can be asked.

#include <cstdint>
#include <optional>
#include <vector>

namespace paramedic::cluster {

// A signature that is not known: it is equal to every other one.
constexpr uint32_t kUnknownSignature = 0;

// The calls of one rank in one group: those from number `first` on are known, the older ones are
// forgotten. Numbers count the collectives of the rank in the group from 0.
struct RankCalls {
  int32_t rank = 0;
  int64_t first = 0;
  std::vector<uint32_t> signatures;  // equal numbers: calls that fit together
  int64_t left = 0;                  // all calls before this number have returned

  [[nodiscard]] int64_t entered() const { return first + static_cast<int64_t>(signatures.size()); }
};

// How far the ranks are.
struct Frontier {
  int64_t furthest = 0;           // calls that the foremost rank has entered
  std::vector<int32_t> laggards;  // have entered fewer; ascending by entered(), then by rank
  std::vector<int32_t> inside;    // have entered `furthest` and not left the last
};
Frontier frontier_of(const std::vector<RankCalls>& ranks);

// How the calls of one rank become those of the others.
struct Edit {
  enum class Kind : uint8_t {
    kSkipped,    // it left out `count` calls
    kExtra,      // it made `count` calls that the others did not make
    kReordered,  // it made the same `count` calls in another order
    kOther,      // it called something else
  };
  int32_t rank = 0;
  Kind kind = Kind::kOther;
  int64_t number = 0;  // of the first call that is concerned
  int64_t count = 1;
};

// The first call at which the ranks are not the same.
struct Divergence {
  struct Camp {
    uint32_t signature = kUnknownSignature;
    std::vector<int32_t> ranks;  // ascending
  };
  int64_t number = 0;
  std::vector<Camp> camps;    // the largest first, then the one of the lowest rank
  bool has_majority = false;  // the first camp holds more than half of those who came so far
  std::vector<Edit> edits;    // of the ranks outside the majority, when there is one
};

// Looks only at numbers that at least two ranks know, and at most at the first divergence: what
// follows is its consequence.
std::optional<Divergence> first_divergence(const std::vector<RankCalls>& ranks);

}  // namespace paramedic::cluster
