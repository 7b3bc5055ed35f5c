#include "diagnose/collectives.h"

#include <gtest/gtest.h>

#include "diagnose/diagnose.h"

namespace paramedic::diagnose {
namespace {

// What torch 2.4 prints for one rank.
std::string watchdog(int rank, int sequence, const std::string& operation, int elements) {
  const std::string number = std::to_string(rank);
  return "[rank" + number + "]:[E607 02:07:08.408271257 ProcessGroupNCCL.cpp:607] [Rank " + number +
         "] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=" +
         std::to_string(sequence) + ", OpType=" + operation +
         ", NumelIn=" + std::to_string(elements) + ", NumelOut=" + std::to_string(elements) +
         ", Timeout(ms)=3000000) ran for 3000061 milliseconds before timing out.\n";
}

constexpr const char* kRecorderOff =
    "[rank0]:[E607 02:07:08.408 ProcessGroupNCCL.cpp:670] Stack trace of the failed collective not "
    "found, potentially because FlightRecorder is disabled. You can enable it by setting "
    "TORCH_NCCL_TRACE_BUFFER_SIZE to a non-zero value.\n";

Verdict verdict_of(const std::string& text) { return diagnose_text("job.log", text).verdict; }

TEST(Collectives, RanksThatWereInDifferentOperationsAtOneNumberHaveParted) {
  const Verdict verdict =
      verdict_of(watchdog(3, 7219, "BROADCAST", 64) + watchdog(2, 7219, "BROADCAST", 24084544) +
                 watchdog(0, 7221, "BROADCAST", 64));
  EXPECT_EQ(verdict.category, Category::kCollectiveMismatch);
  EXPECT_EQ(verdict.retry, Retry::kNever);
  EXPECT_EQ(verdict.first_failing_rank, -1);  // one against one
  EXPECT_NE(verdict.title.find("#7219"), std::string::npos) << verdict.title;
  EXPECT_NE(verdict.title.find("rank 3 in BROADCAST[64]"), std::string::npos) << verdict.title;
}

TEST(Collectives, TheMinorityOfThreeIsNamed) {
  const Verdict verdict =
      verdict_of(watchdog(0, 9, "ALLREDUCE", 10) + watchdog(1, 9, "ALLGATHER", 10) +
                 watchdog(2, 9, "ALLREDUCE", 10));
  EXPECT_EQ(verdict.category, Category::kCollectiveMismatch);
  EXPECT_EQ(verdict.first_failing_rank, 1);
}

TEST(Collectives, WhenAllRanksAreInTheSameOneTheNetworkIsAtFault) {
  std::string text;
  for (int rank = 0; rank < 4; ++rank) text += watchdog(rank, 88, "ALLREDUCE", 1000);
  const Verdict verdict = verdict_of(text);
  EXPECT_EQ(verdict.category, Category::kCollectiveTimeout);
  EXPECT_EQ(verdict.domain, Domain::kPlatform);
  EXPECT_EQ(verdict.first_failing_rank, -1);
  EXPECT_NE(verdict.title.find("no missing rank"), std::string::npos) << verdict.title;
}

TEST(Collectives, TheRankThatSaysNothingDidNotCome) {
  const Verdict verdict =
      verdict_of(watchdog(0, 88, "ALLREDUCE", 1) + watchdog(1, 88, "ALLREDUCE", 1) +
                 watchdog(3, 88, "ALLREDUCE", 1));
  EXPECT_EQ(verdict.first_failing_rank, 2);
  EXPECT_NE(verdict.title.find("rank 2 did not come to collective #88"), std::string::npos)
      << verdict.title;
}

TEST(Collectives, OneRankAloneProvesNothingAndTheRecorderIsAskedFor) {
  const Verdict verdict = verdict_of(watchdog(0, 88, "ALLREDUCE", 1) + kRecorderOff);
  EXPECT_EQ(verdict.category, Category::kCollectiveTimeout);
  EXPECT_NE(verdict.collect_next.find("flight recorder was off"), std::string::npos)
      << verdict.collect_next;
}

TEST(Collectives, PiecesOfDifferentSizesAreNoMismatch) {
  const Verdict verdict =
      verdict_of(watchdog(0, 5, "ALLTOALL_BASE", 10) + watchdog(1, 5, "ALLTOALL_BASE", 12));
  EXPECT_EQ(verdict.category, Category::kCollectiveTimeout);
}

TEST(Collectives, ARendezvousThatCannotBeReachedIsNoTimeoutOfACollective) {
  const Verdict verdict = verdict_of(
      "Traceback (most recent call last):\n"
      "  File \"/usr/lib/torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py\", line "
      "178, in _create_tcp_store\n"
      "    store = TCPStore(host, port, is_master=is_server)\n"
      "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while "
      "trying to connect to (node0, 29400).\n\n"
      "The above exception was the direct cause of the following exception:\n\n"
      "Traceback (most recent call last):\n"
      "  File \"/usr/bin/torchrun\", line 8, in <module>\n"
      "    sys.exit(main())\n"
      "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the "
      "C10d store has failed. See inner exception for details.\n");
  EXPECT_EQ(verdict.category, Category::kNetwork) << verdict.mechanism;
  EXPECT_FALSE(verdict.fix.empty());
}

}  // namespace
}  // namespace paramedic::diagnose
