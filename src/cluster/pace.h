#pragma once
// How the ranks of a job spend their time, from the `pace` events of all of them (store/rows.h):
// beats, which lie between two optimizer steps and have the same numbers on all ranks, and what
// each rank was seen at meanwhile. Bounded; one thread.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "rules/finding.h"
#include "store/rows.h"

namespace paramedic::cluster {

// What a rank was seen doing: a line of the job's own, and at what kind of work.
struct PaceLine {
  std::string kind;  // data forward backward optimizer checkpoint validation gc host
  rules::Where where;
  double ms = 0;     // a beat
  double still = 0;  // share of it in which the process slept or read instead of computing
};

// What a rank may use of its machine, told once.
struct PaceStanding {
  int32_t pid = 0;
  int threads = 1;
  int cores = 0;  // 0 = not told
  int nice = 0;
  std::optional<rules::Where> threads_set;
};

// A rank over the beats of a PaceSpan; sums in milliseconds.
struct RankPace {
  int32_t rank = 0;
  std::vector<double> self_ms;  // by beat: everything but waiting for other ranks
  std::vector<double> wait_ms;  // by beat
  double self_sum = 0;
  double wait_sum = 0;
  // Of the time in which it wanted a core and had none, that inside self_ms and that outside.
  double delay_within = 0;
  double delay_beside = 0;
  double cpu_sum = 0;
  double gc_sum = 0;
  std::vector<PaceLine> lines;
};

// Beats that all ranks have told of.
struct PaceSpan {
  int64_t first = 0;  // number of the first beat
  size_t beats = 0;
  double wall_ms = 0;
  int64_t first_step = -1;
  int64_t last_step = -1;
  std::vector<RankPace> ranks;  // by rank; none when nothing is complete
};

class Pace {
 public:
  // True when the row was one of pace.
  bool on_event(const store::EventRow& row);

  // The newest complete beats, at most `ms` of them, without the first ones of the job: these
  // find nothing in the caches, and libraries set themselves up.
  [[nodiscard]] PaceSpan newest(double ms) const;
  // Beats that are complete, since the beginning.
  [[nodiscard]] int64_t complete_beats() const { return complete().second; }
  // By rank; ranks that have not begun are missing.
  [[nodiscard]] std::map<int32_t, PaceStanding> standings() const;

 private:
  struct Report {
    int64_t first = 0;
    int64_t beats = 0;
    int64_t step = -1;
    double wall_ms = 0;
    double cpu_ms = 0;
    double backward_cpu_ms = 0;
    double delay_ms = 0;
    double gc_ms = 0;
    double looks = 0;
    std::vector<PaceLine> lines;  // ms: of the whole report
  };
  struct Rank {
    uint64_t ring_id = 0;
    PaceStanding standing;
    int64_t first = 0;                          // number of beats.front()
    std::deque<std::pair<float, float>> beats;  // ms: self, wait
    std::deque<Report> reports;
  };
  void begin(const store::EventRow& row, const Json& json);
  void add(const store::EventRow& row, const Json& json);
  // [first, end) of the beats that all ranks have told of and still keep.
  [[nodiscard]] std::pair<int64_t, int64_t> complete() const;
  static RankPace cut(int32_t number, const Rank& rank, int64_t first, int64_t end);
  static void add_lines(const Rank& rank, int64_t first, int64_t end, RankPace& pace);

  std::map<int32_t, Rank> ranks_;
  size_t ranks_here_ = 0;  // that this agent will hear of
};

}  // namespace paramedic::cluster
