#include "diagnose/stack_dump.h"

#include <gtest/gtest.h>

#include <string>

#include "diagnose/diagnose.h"

namespace paramedic::diagnose {
namespace {

std::string read(std::string_view text) {
  const DumpLine line = dump_line(text);
  if (line.kind == DumpLine::Kind::kNone) return "none";
  if (line.kind == DumpLine::Kind::kHeader) return "header";
  const char* role = line.frame.role == FrameRole::kNative ? "native " : "";
  return role + line.frame.file + "|" + line.frame.function;
}

TEST(StackDump, OfEachPrinterIsReadLineByLine) {
  EXPECT_EQ(read("Current thread 0x00007f0e8c4b9740 (most recent call first):"), "header");
  EXPECT_EQ(read("Thread 0x00007f0e8c4b9740 [pt_data_pin] (most recent call first):"), "header");
  EXPECT_EQ(read("  File \"/job/train.py\", line 40 in step"), "/job/train.py|step");
  EXPECT_EQ(read("Thread 688510 (active): \"MainThread\""), "header");
  EXPECT_EQ(read("    all_reduce (torch/distributed/distributed_c10d.py:1191)"),
            "torch/distributed/distributed_c10d.py|all_reduce");
  EXPECT_EQ(read("Stack trace returned 10 entries:"), "header");
  EXPECT_EQ(read("[bt] (3) /lib/libmxnet.so(mxnet::Engine::Push(int)+0x9) [0x7ff6ebd898d9]"),
            "native /lib/libmxnet.so|mxnet::Engine::Push(int)+0x9");
  EXPECT_EQ(read("frame #4: c10::Error::Error() + 0x57 (0x7f2a in /opt/libc10.so)"),
            "native /opt/libc10.so|c10::Error::Error() + 0x57");
  EXPECT_EQ(read("    @     0x7f2a9f2cc420 (unknown)"), "native |");
  EXPECT_EQ(read("#2  0x00007f in __run_exit_handlers (status=0) from /lib/libc.so.6"),
            "native /lib/libc.so.6|__run_exit_handlers");
}

TEST(StackDump, IsNotWhatATracebackOrASyntaxErrorPrints) {
  EXPECT_EQ(read("  File \"/job/train.py\", line 40, in step"), "none");
  EXPECT_EQ(read("  File \"/job/train.py\", line 40"), "none");
  EXPECT_EQ(read("loss (0.3)"), "none");
  EXPECT_EQ(read("#2 see also (the other issue)"), "none");
}

TEST(StackDump, TellsWhereAndInWhichPhaseAProcessDied) {
  const Verdict verdict = diagnose_text("job.log",
                                        "Fatal Python error: Segmentation fault\n\n"
                                        "Current thread 0x00007f (most recent call first):\n"
                                        "  File \"/job/data.py\", line 9 in decode\n"
                                        "  File \"/job/data.py\", line 21 in __getitem__\n"
                                        "  File \"/x/site-packages/torch/utils/data/_utils/"
                                        "fetch.py\", line 52 in fetch\n"
                                        "  File \"/job/train.py\", line 40 in <module>\n\n"
                                        "Extension modules: numpy, torch._C (total: 20)\n")
                              .verdict;
  EXPECT_EQ(name(verdict.category), "native_crash");
  EXPECT_EQ(name(verdict.stage), "data");
  ASSERT_TRUE(verdict.where);
  EXPECT_EQ(verdict.where->function, "decode");
  EXPECT_EQ(verdict.evidence.at(1).line, 4U);
}

TEST(StackDump, OfNativeCodeTellsThatAProcessWasEnding) {
  const Verdict verdict =
      diagnose_text("job.log",
                    "Epoch 3 done, loss 0.2\n"
                    "Segmentation fault: 11\n"
                    "Stack trace returned 3 entries:\n"
                    "[bt] (0) /lib/libpthread.so.0(pthread_join+0x9) [0x7ff6ebd898d9]\n"
                    "[bt] (1) /x/c_lib.so(comm::Engine::Shutdown()+0x39a) [0x7ff57401499a]\n")
          .verdict;
  EXPECT_EQ(name(verdict.stage), "teardown");
  EXPECT_FALSE(verdict.where);
}

}  // namespace
}  // namespace paramedic::diagnose
