#include "diagnose/prefix.h"

#include <gtest/gtest.h>

#include <cmath>

namespace paramedic::diagnose {
namespace {

Prefixed split(const std::string& line) {
  // The views of the answer point into the text.
  static std::string kept;
  kept = line;
  PrefixSplitter splitter;
  return splitter.split(kept);
}

TEST(Prefix, OfEachKnownLauncherTellsTheRank) {
  EXPECT_EQ(split("[rank3]: ValueError: x").rank, 3);
  EXPECT_EQ(split("[default7]:ValueError: x").rank, 7);
  EXPECT_EQ(split("[1,5]<stderr>:ValueError: x").rank, 5);
  EXPECT_EQ(split("[RANK 2] ValueError: x").rank, 2);
  EXPECT_EQ(split("worker-4 | ValueError: x").rank, 4);
  EXPECT_EQ(split("[pod/train-6/main] ValueError: x").rank, 6);
  EXPECT_EQ(split("12: Traceback (most recent call last):").rank, 12);
  EXPECT_EQ(split("[rank3]: ValueError: x").text, "ValueError: x");
}

TEST(Prefix, StandsBehindTheMarkOfAQuote) {
  EXPECT_EQ(split("`[rank3]: ValueError: x").rank, 3);
  EXPECT_EQ(split("`[rank3]: ValueError: x").text, "ValueError: x");
}

TEST(Prefix, OfARayWorkerNamesTheWriterButNoRank) {
  const Prefixed line = split("(RayTrainWorker pid=77, ip=10.0.0.1) ValueError: x");
  EXPECT_EQ(line.rank, -1);
  EXPECT_EQ(line.writer, "(RayTrainWorker pid=77, ip=10.0.0.1)");
  EXPECT_EQ(line.text, "ValueError: x");
}

TEST(Prefix, WithATimeTellsSecondsSince1970) {
  EXPECT_DOUBLE_EQ(split("2024-05-01T10:00:00.250Z ValueError: x").time_s, 1714557600.25);
  EXPECT_DOUBLE_EQ(split("[2024-05-01 10:00:00,500] [ERROR] x").time_s, 1714557600.5);
  EXPECT_EQ(split("[2024-05-01 10:00:00,500] [ERROR] x").level, Level::kError);
  EXPECT_TRUE(std::isnan(split("ValueError: x").time_s));
}

TEST(Prefix, ThatNobodyListsIsLearnedFromATraceback) {
  PrefixSplitter splitter;
  const std::string header = "gpu-box#3 >> Traceback (most recent call last):";
  const std::string frame = "gpu-box#3 >>   File \"a.py\", line 1, in f";
  const std::string later = "gpu-box#3 >> ValueError: x";
  splitter.split(header);
  splitter.split(frame);
  const Prefixed line = splitter.split(later);
  EXPECT_EQ(line.text, "ValueError: x");
  EXPECT_EQ(line.rank, 3);
}

TEST(Prefix, AProgressBarBeforeATracebackIsNoPrefix) {
  PrefixSplitter splitter;
  splitter.split("  0%|          | 0/4 [00:00<?, ?it/s]Traceback (most recent call last):");
  EXPECT_EQ(splitter.split("ValueError: x").text, "ValueError: x");
}

TEST(Prefix, NumbersAreRanksOnlyWhereAStructureFollows) {
  EXPECT_EQ(split("3: three things to do").rank, -1);
}

}  // namespace
}  // namespace paramedic::diagnose
