#pragma once
// What the watches of hangs have in common: a stall is followed from look to look, told when it
// has lasted longer than its patience, and taken back when it goes on after all.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "cluster/stall.h"
#include "cluster/watch.h"

namespace paramedic::cluster {

class HangWatch : public Watch {
 public:
  using Watch::Watch;
  void tick(const Moment& moment) override;
  void finish() override;

 protected:
  // What this watch says about a stall; nothing when it is another watch's matter.
  [[nodiscard]] virtual std::optional<rules::Finding> finding_of(const Stall& stall,
                                                                 double waited_s) const = 0;
  [[nodiscard]] bool has_told() const { return has_told_; }

 private:
  struct Followed {
    Stall stall;
    rules::Finding told;
    double told_s = 0;  // 0: not told; else how long it lasted then
    size_t waiters_told = 0;
    int64_t seen_ns = 0;       // last look at which it was there
    std::set<int32_t> waited;  // all that were seen in it
  };

  // Somebody ends the job: what the rest of it looks like says less.
  [[nodiscard]] bool has_lost_waiters(const Followed& followed) const;
  [[nodiscard]] std::string topic_of(const Stall& stall) const;
  void follow(const Stall& stall);
  void take_back(Followed& followed, const std::string& topic);
  // The ranks that waited have come out of it unharmed, and the one they waited for has moved.
  [[nodiscard]] bool went_on(const Stall& stall) const;

  std::map<std::string, Followed> followed_;  // by topic
  bool has_told_ = false;
  std::map<std::string, double> longest_s_;  // by place, of those that went on
};

// "rank 2", "ranks 0, 1 and 3", "512 ranks (0, 1, 2, …)".
std::string name_ranks(const std::vector<int32_t>& ranks);
// "7 s", "2.5 min".
std::string name_duration(double seconds);

// The waiters of a stall, those in the same call together: the largest camp first.
struct Camp {
  Waiter waiter;  // of the lowest rank
  std::vector<int32_t> ranks;
};
std::vector<Camp> camps_of(const Stall& stall);
// Of those that wait for each other, the one that is to blame: its coming would set all others
// free, or it is alone in another operation than all others in the same call. Nothing where nobody
// can say.
std::optional<Waiter> odd_waiter(const Stall& stall);
// One line for each camp, the stack and the process of each suspect, and what all of that rests on.
std::vector<std::string> evidence_of(const Job& job, const Stall& stall);
// Nothing when the line is not known.
std::optional<rules::Where> where_of(const store::CallSite& site);

}  // namespace paramedic::cluster
