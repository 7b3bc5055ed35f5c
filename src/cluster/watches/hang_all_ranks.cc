// All ranks wait: for each other in a circle, or in one collective that does not end.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cluster/hang.h"

namespace paramedic::cluster {
namespace {

constexpr size_t kCampsSaidMax = 3;

class HangAllRanks : public HangWatch {
 public:
  using HangWatch::HangWatch;

 protected:
  [[nodiscard]] std::optional<rules::Finding> finding_of(const Stall& stall,
                                                         double waited_s) const override {
    if (!stall.suspects.empty()) return std::nullopt;
    // That is hang_missing_rank's.
    if (odd_waiter(stall)) return std::nullopt;
    const auto camps = camps_of(stall);
    rules::Finding finding;
    finding.where = where_of(camps.front().waiter.where);
    finding.message =
        stall.doing == Doing::kInside ? inside(camps.front(), waited_s) : deadlock(camps, waited_s);
    finding.evidence = evidence_of(job(), stall);
    return finding;
  }

 private:
  static std::string inside(const Camp& camp, double waited_s) {
    return fmt::format("{} are all in {} ({}) since {} and it does not end", name_ranks(camp.ranks),
                       camp.waiter.operation, place(camp.waiter.where), name_duration(waited_s));
  }

  static std::string deadlock(const std::vector<Camp>& camps, double waited_s) {
    std::string text =
        fmt::format("the ranks wait for each other since {}: ", name_duration(waited_s));
    for (size_t i = 0; i < std::min(camps.size(), kCampsSaidMax); ++i) {
      const Waiter& waiter = camps[i].waiter;
      text +=
          fmt::format("{}{} in {} of group {} ({})", i == 0 ? "" : ", ", name_ranks(camps[i].ranks),
                      waiter.operation, waiter.group, place(waiter.where));
    }
    return text;
  }
};

}  // namespace

WatchEntry hang_all_ranks_watch() {
  return {{"hang_all_ranks",
           rules::Severity::kError,
           "All ranks wait and none of them can go on",
           "Every rank is inside of a collective: all in the same one, which does not end (the "
           "network, or a peer below the framework), or in different ones, so that they wait for "
           "each other in a circle.",
           "in a circle: let all ranks call the collectives of their groups in the same order; in "
           "one call: look at the network between the ranks and at what the backend logs",
           {}},
          &make_watch<HangAllRanks>};
}

}  // namespace paramedic::cluster
