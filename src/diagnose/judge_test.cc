#include "diagnose/judge.h"

#include <gtest/gtest.h>

namespace paramedic::diagnose {
namespace {

Exception exception(const std::string& type, const std::string& message) {
  Exception made;
  made.type = type;
  made.message = message;
  made.frames = {{"/job/train.py", 40, "<module>", "main()", FrameRole::kUser},
                 {"/job/train.py", 31, "train_step", "loss.backward()", FrameRole::kUser}};
  return made;
}

TEST(Judge, GivesOfALiveCrashWhatDiagnoseGivesOfItsTraceback) {
  LiveCrash crash;
  crash.chain = {
      exception("torch.OutOfMemoryError", "CUDA out of memory. Tried to allocate 2 GiB")};
  crash.rank = 3;
  crash.step = 900;
  crash.checkpoint_step = 500;
  const Verdict verdict = judge(std::move(crash));
  EXPECT_EQ(name(verdict.category), "gpu_out_of_memory");
  EXPECT_EQ(name(verdict.retry), "never");
  EXPECT_EQ(name(verdict.stage), "train");
  EXPECT_EQ(verdict.first_failing_rank, 3);
  EXPECT_EQ(verdict.lost_steps, 400);
  EXPECT_EQ(verdict.where->line, 31);
}

TEST(Judge, OfAChainTakesTheFirst) {
  LiveCrash crash;
  crash.chain = {exception("FileNotFoundError", "[Errno 2] No such file or directory: 'a'"),
                 exception("RuntimeError", "no data")};
  crash.chain[1].link = Link::kDuringHandling;
  EXPECT_EQ(name(judge(std::move(crash)).category), "path_not_found");
}

TEST(Judge, OfNothingIsUnknown) { EXPECT_EQ(name(judge({}).category), "unknown"); }

}  // namespace
}  // namespace paramedic::diagnose
