#include "diagnose/diagnose.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <random>

#include "base/test_folder.h"

namespace paramedic::diagnose {
namespace {

Verdict verdict_of(const std::string& text) { return diagnose_text("job.log", text).verdict; }

TEST(Diagnose, TheInnerExceptionOfAWorkerIsTheCauseAndTheOuterAWrapper) {
  const Verdict verdict = verdict_of(
      "Epoch 3 step 120 loss 0.3\n"
      "Traceback (most recent call last):\n"
      "  File \"/job/train.py\", line 40, in <module>\n"
      "    for batch in loader:\n"
      "KeyError: Caught KeyError in DataLoader worker process 1.\n"
      "Original Traceback (most recent call last):\n"
      "  File \"/job/data.py\", line 9, in __getitem__\n"
      "    return self.labels[name]\n"
      "KeyError: 'img_7'\n"
      "subprocess.CalledProcessError: Command '['python', 'train.py']' returned non-zero exit "
      "status 1.\n");
  EXPECT_EQ(name(verdict.category), "key_not_found");
  EXPECT_EQ(verdict.evidence.front().line, 9U);
  EXPECT_EQ(name(verdict.stage), "data");
  EXPECT_EQ(verdict.where->file, "/job/data.py");
  EXPECT_EQ(name(verdict.retry), "never");
  ASSERT_FALSE(verdict.ruled_out.empty());
}

TEST(Diagnose, WhatALoggerSaysBehindATracebackIsNotOfItsMessage) {
  const Verdict verdict = verdict_of(
      "Traceback (most recent call last):\n"
      "  File \"/job/train.py\", line 33, in <module>\n"
      "    main()\n"
      "KeyError: 'lamb'\n"
      "W1130 03:12:24.531000 2503 torch/distributed/elastic/multiprocessing/api.py:1028] Sending "
      "process 2508 closing signal SIGTERM\n"
      "E1130 03:12:24.547000 2503 torch/distributed/elastic/multiprocessing/api.py:1002] failed "
      "(exitcode: 1) local_rank: 1 (pid: 2509) of binary: /usr/bin/python\n"
      "Failures:\n"
      "[1]:\n"
      "  rank      : 0 (local_rank: 0)\n"
      "  exitcode  : -15 (pid: 2508)  (SIGTERM)\n"
      "  traceback : Signal 15 (SIGTERM) received by PID 2508\n"
      "Root Cause (first observed failure):\n"
      "[0]:\n"
      "  rank      : 1 (local_rank: 1)\n"
      "  exitcode  : 1 (pid: 2509)\n");
  EXPECT_EQ(name(verdict.category), "key_not_found");
  EXPECT_EQ(verdict.exception_message, "'lamb'");
  EXPECT_EQ(verdict.first_failing_rank, 1);
}

TEST(Diagnose, RanksThatTheirLauncherEndedAreNoCause) {
  const Verdict verdict = verdict_of(
      "W1130 03:12:24.531000 2503 api.py:1028] Sending process 2508 closing signal SIGTERM\n"
      "  rank      : 0 (local_rank: 0)\n"
      "  exitcode  : -15 (pid: 2508)  (SIGTERM)\n"
      "  traceback : Signal 15 (SIGTERM) received by PID 2508\n"
      "Root Cause (first observed failure):\n"
      "  rank      : 1 (local_rank: 1)\n"
      "  exitcode  : 1 (pid: 2509)\n");
  EXPECT_EQ(name(verdict.category), "unknown");
  EXPECT_EQ(verdict.first_failing_rank, 1);
}

TEST(Diagnose, TheErrorFileOfTorchelasticIsReadAsTheTracebackThatItHolds) {
  const TemporaryFolder folder;
  write_file(folder.path() + "/0/stderr.log", "step 3 loss 0.5\n");
  write_file(folder.path() + "/1/stderr.log", "step 3 loss 0.5\n");
  write_file(folder.path() + "/1/error.json",
             R"({"message": {"message": "KeyError: 'beam'", "extraInfo": {"py_callstack":)"
             R"("Traceback (most recent call last):\n  File \"/job/train.py\", line 12, in main\n)"
             R"(    x = cfg[key]\nKeyError: 'beam'\n", "timestamp": "1714557600"}}})");
  const auto diagnosis = diagnose_paths({folder.path()});
  EXPECT_EQ(name(diagnosis->verdict.category), "key_not_found");
  EXPECT_EQ(diagnosis->verdict.first_failing_rank, 1);
  EXPECT_EQ(diagnosis->verdict.where->line, 12);
}

TEST(Diagnose, ADeadWorkerOfALoaderIsOfTheDataWhateverItInterrupted) {
  const Verdict verdict = verdict_of(
      "Traceback (most recent call last):\n"
      "  File \"/job/train.py\", line 12, in training_step\n"
      "    loss.item()\n"
      "  File \"/x/site-packages/torch/utils/data/_utils/signal_handling.py\", line 66, in "
      "handler\n"
      "    _error_if_any_worker_fails()\n"
      "RuntimeError: DataLoader worker (pid 51292) is killed by signal: Aborted.\n");
  EXPECT_EQ(name(verdict.stage), "data");
}

TEST(Diagnose, ValidationInsideARunOfTrainingIsToldByTheLog) {
  const Verdict verdict = verdict_of(
      "Validation sanity check: 50it [00:00, 212.11it/s]\n"
      "Traceback (most recent call last):\n"
      "  File \"/job/run.py\", line 77, in main\n"
      "    trainer.fit(model)\n"
      "ValueError: only one element tensors can be converted to Python scalars\n");
  EXPECT_EQ(name(verdict.stage), "validate");
}

TEST(Diagnose, APreemptionBeatsTheExceptionsThatFollowIt) {
  const Verdict verdict = verdict_of(
      "slurmstepd: error: *** JOB 77 ON node02 CANCELLED AT 2024-05-01T10:00:00 DUE TO PREEMPTION "
      "***\n"
      "Traceback (most recent call last):\n"
      "  File \"/job/train.py\", line 40, in <module>\n"
      "    main()\n"
      "RuntimeError: DataLoader worker (pid(s) 4213) exited unexpectedly\n");
  EXPECT_EQ(name(verdict.category), "preempted");
  EXPECT_EQ(name(verdict.retry), "after_delay");
}

TEST(Diagnose, AnErrorThatTheJobSurvivedIsNoFailure) {
  std::string log = "ValueError: could not read the cache, building it again\n";
  for (int i = 1; i < 200; ++i) log += "step " + std::to_string(i) + " loss 0.5\n";
  const Verdict verdict = verdict_of("step 0 loss 0.7\n" + log + "Training finished.\n");
  EXPECT_EQ(name(verdict.category), "no_failure");
}

TEST(Diagnose, AnEmptyLogAndALogThatJustEndsAreUnknownAndSayWhatToCollect) {
  EXPECT_EQ(name(verdict_of("").category), "unknown");
  const Verdict verdict = verdict_of("step 1 loss 0.5\nstep 2 loss 0.4\n");
  EXPECT_EQ(name(verdict.category), "unknown");
  EXPECT_FALSE(verdict.collect_next.empty());
}

TEST(Diagnose, StepsSinceTheLastCheckpointAreLost) {
  const Verdict verdict = verdict_of(
      "step 1000 loss 0.5\nsaved checkpoint to out/step_1000.pt\nstep 1400 loss 0.4\n"
      "ZeroDivisionError: division by zero\n");
  EXPECT_EQ(verdict.lost_steps, 400);
}

TEST(Diagnose, OfAWatchdogTimeoutTheRankThatIsBehindIsTheCulprit) {
  const Verdict verdict = verdict_of(
      "[rank0]:[E1] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=900, "
      "OpType=ALLREDUCE) ran for 600001 milliseconds before timing out.\n"
      "[rank1]:[E1] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=880, "
      "OpType=BROADCAST) ran for 600001 milliseconds before timing out.\n"
      "[rank2]:[E1] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=900, "
      "OpType=ALLREDUCE) ran for 600001 milliseconds before timing out.\n");
  EXPECT_EQ(name(verdict.category), "collective_timeout");
  EXPECT_EQ(verdict.first_failing_rank, 1);
  EXPECT_EQ(name(verdict.stage), "train");
}

TEST(Diagnose, TheSameFailureHasOneFingerprintWhateverRankPathsAndNumbers) {
  const auto fail = [](const std::string& prefix, const std::string& path, int line) {
    return prefix + "Traceback (most recent call last):\n" + prefix + "  File \"" + path +
           "/train.py\", line " + std::to_string(line) + ", in step\n" + prefix +
           "    y = a @ b\n" + prefix +
           "RuntimeError: mat1 and mat2 shapes cannot be multiplied (" + std::to_string(line) +
           "x784 and 512x10)\n";
  };
  const Verdict one = verdict_of(fail("[rank0]: ", "/home/a", 12));
  const Verdict two = verdict_of(fail("[rank7]: ", "/scratch/b/c", 99));
  EXPECT_EQ(one.fingerprint, two.fingerprint);
  EXPECT_EQ(one.fingerprint_exact, two.fingerprint_exact);
}

// Of two traces, one the cause and one its consequence, lines interleaved at random.
TEST(Diagnose, OfInterleavedRanksTheFirstToFailIsNamed) {
  const std::vector<std::string> cause = {"Traceback (most recent call last):",
                                          "  File \"/job/train.py\", line 50, in <module>",
                                          "    main()",
                                          "  File \"/job/train.py\", line 31, in main",
                                          "    table[word]",
                                          "KeyError: 'beam'"};
  const std::vector<std::string> victim = {
      "Traceback (most recent call last):",
      "  File \"/job/train.py\", line 50, in <module>",
      "    main()",
      "  File \"/job/train.py\", line 36, in main",
      "    dist.all_reduce(loss)",
      "RuntimeError: [/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:29551"};
  std::mt19937 random(7);
  int right = 0;
  constexpr int kRounds = 60;
  for (int round = 0; round < kRounds; ++round) {
    const size_t ranks = 2 + random() % 63;
    const size_t guilty = random() % ranks;
    std::vector<size_t> next(ranks, 0);
    std::string log;
    for (size_t left = ranks * cause.size(); left > 0;) {
      const size_t rank = random() % ranks;
      if (next[rank] == cause.size()) continue;
      const auto& lines = rank == guilty ? cause : victim;
      const std::string style = round % 3 == 0   ? "[rank" + std::to_string(rank) + "]: "
                                : round % 3 == 1 ? "[1," + std::to_string(rank) + "]<stderr>:"
                                                 : "node" + std::to_string(rank) + " => ";
      log += style + lines[next[rank]++] + "\n";
      --left;
    }
    right += verdict_of(log).first_failing_rank == static_cast<int>(guilty) ? 1 : 0;
  }
  EXPECT_GE(right, kRounds * 95 / 100);
}

TEST(Diagnose, AFolderOfPerRankFilesTellsTheRankByTheName) {
  const TemporaryFolder folder;
  write_file(folder.path() + "/rank-0.err", "BrokenPipeError: [Errno 32] Broken pipe\n");
  write_file(folder.path() + "/rank-3.err", "IndexError: list index out of range\n");
  write_file(folder.path() + "/model.pt", "KeyError: 'not a log'\n");
  const auto diagnosis = diagnose_paths({folder.path()});
  ASSERT_TRUE(diagnosis.ok());
  EXPECT_EQ(name(diagnosis->verdict.category), "index_out_of_bounds");
  EXPECT_EQ(diagnosis->verdict.first_failing_rank, 3);
}

TEST(Diagnose, ACompressedLogIsReadAndADamagedOneIsAnError) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/job.log.gz";
  gzFile file = gzopen(path.c_str(), "wb");
  const std::string text = "step 1\nNameError: name 'np' is not defined\n";
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  EXPECT_EQ(name(diagnose_paths({path})->verdict.category), "undefined_variable");
  const std::string bad = folder.path() + "/bad.gz";
  write_file(bad,
             std::string("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", 10) + std::string(64, '\xff'));
  EXPECT_FALSE(diagnose_paths({bad}).ok());
}

TEST(Diagnose, APathThatDoesNotExistIsAnErrorAndSoIsAFolderWithoutLogs) {
  const TemporaryFolder folder;
  EXPECT_FALSE(diagnose_paths({folder.path() + "/none.log"}).ok());
  EXPECT_FALSE(diagnose_paths({folder.path()}).ok());
}

TEST(Diagnose, BytesThatAreNoTextAreSurvived) {
  std::mt19937 random(3);
  std::string bytes;
  for (int i = 0; i < 200000; ++i) bytes += static_cast<char>(random() % 256);
  EXPECT_EQ(diagnose_text("a.bin", bytes).verdict.evidence.size(), 0U);
}

}  // namespace
}  // namespace paramedic::diagnose
