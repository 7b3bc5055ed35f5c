#include "cluster/patience.h"

#include <gtest/gtest.h>

namespace paramedic::cluster {
namespace {

struct PatienceCase {
  const char* what;
  Pause pause;
  bool is_hang;
};

TEST(patience, every_kind_of_pause_has_its_own) {
  const PatienceCase cases[] = {
      {"a rank that has left will not come", {Doing::kGone, 2.5, false, 0}, true},
      {"the others may still notice it themselves", {Doing::kGone, 1.0, false, 0}, false},
      {"SIGSTOP", {Doing::kStopped, 5, false, 0}, true},
      {"two groups in opposite order", {Doing::kDeadlock, 5, false, 0}, true},
      {"a deadlock at a place that was slow before", {Doing::kDeadlock, 5, false, 100}, true},
      {"time.sleep for ever", {Doing::kIdle, 7, false, 0}, true},
      {"a short sleep", {Doing::kIdle, 5, false, 0}, false},
      {"a sleep where one of five seconds was before", {Doing::kIdle, 15, false, 5}, false},
      {"the same, far beyond", {Doing::kIdle, 21, false, 5}, true},
      {"while True: pass", {Doing::kBusy, 8, false, 0}, true},
      {"building a dataset before the first collective", {Doing::kBusy, 40, true, 0}, false},
      {"a checkpoint that is being written", {Doing::kWorking, 120, false, 0}, false},
      {"evaluation on rank 0", {Doing::kWorking, 300, false, 0}, false},
      {"evaluation that never ends", {Doing::kWorking, 601, false, 0}, true},
      {"a slow step that computes", {Doing::kMoving, 30, false, 0}, false},
      {"one that computes for minutes", {Doing::kMoving, 100, false, 0}, true},
      {"in a collective of which nothing comes", {Doing::kInside, 8.5, false, 0}, true},
      {"a large transfer that took as long before", {Doing::kInside, 20, false, 6}, false},
      {"nothing is known", {Doing::kUnknown, 6, false, 0}, false},
  };
  for (const PatienceCase& entry : cases) {
    EXPECT_EQ(judge(entry.pause).is_hang, entry.is_hang) << entry.what;
  }
}

TEST(patience, what_looks_like_a_hang_from_both_sides_is_named_within_ten_seconds) {
  for (const Doing doing : {Doing::kGone, Doing::kStopped, Doing::kDeadlock, Doing::kElsewhere,
                            Doing::kIdle, Doing::kBusy, Doing::kUnknown, Doing::kInside}) {
    const Judgement judgement = judge({doing, 9, false, 0});
    EXPECT_TRUE(judgement.is_hang) << static_cast<int>(doing);
    EXPECT_LE(judgement.patience_s, 9);
    EXPECT_GE(judgement.confidence, 0.6);
  }
}

}  // namespace
}  // namespace paramedic::cluster
