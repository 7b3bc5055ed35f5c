#include "diagnose/traceback.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "diagnose/text.h"

namespace paramedic::diagnose {
namespace {

std::vector<Exception> parse(const std::string& text) {
  TracebackParser parser;
  std::vector<Exception> found;
  uint64_t number = 0;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    ++number;
    // As the scanner does: empty lines are not given.
    if (!line.empty()) parser.feed({line, number, begin});
    begin = end == std::string::npos ? text.size() : end + 1;
  }
  parser.finish();
  while (auto exception = parser.take()) found.push_back(*exception);
  return found;
}

TEST(Traceback, OfCPythonGivesFramesCodeTypeAndMessage) {
  const auto found = parse(
      "Traceback (most recent call last):\n"
      "  File \"/job/train.py\", line 12, in <module>\n"
      "    main()\n"
      "    ~~~~^^\n"
      "  File \"/job/train.py\", line 7, in main\n"
      "    return rates[\"lr\"]\n"
      "           ~~~~~^^^^^^\n"
      "KeyError: 'lr'\n");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].type, "KeyError");
  EXPECT_EQ(found[0].message, "'lr'");
  EXPECT_EQ(found[0].line, 8U);
  ASSERT_EQ(found[0].frames.size(), 2U);
  EXPECT_EQ(found[0].frames[1].function, "main");
  EXPECT_EQ(found[0].frames[1].line, 7);
  EXPECT_EQ(found[0].frames[1].code, "return rates[\"lr\"]");
  EXPECT_TRUE(found[0].has_header);
}

TEST(Traceback, OfANotebookThatWasCutKeepsTheTypeOfItsHeader) {
  const auto found = parse(
      "MXNetError                                Traceback (most recent call last)\n"
      "<ipython-input-1-aa> in <module>()\n"
      "---> 21 loss += sum(l)\n");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].type, "MXNetError");
  EXPECT_EQ(found[0].line, 1U);
}

TEST(Traceback, OfRayThatCarriesNothingHasTheTypeOfItsTask) {
  const auto found = parse("ray.exceptions.RayTaskError(SyntaxError): <no detail available>\n");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].type, "SyntaxError");
}

TEST(Traceback, OfACheckInNativeCodeHasItsStackAndNotWhatTheShellSays) {
  const auto found = parse(
      "blob.cpp:21] Check failed: a == b (1 vs. 2)\n"
      "*** Check failure stack trace: ***\n"
      "    @     0x7f0000000001  google::LogMessage::Fail()\n"
      "    @     0x7f0000000003  caffe::Solver<>::Step()\n"
      "Aborted (core dumped)\n");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].type, "CheckFailed");
  EXPECT_TRUE(found[0].more_lines.empty());
  ASSERT_EQ(found[0].frames.size(), 2U);
  EXPECT_EQ(found[0].frames[0].function, "caffe::Solver<>::Step()");
}

TEST(Traceback, OfUserCodeInKerasIsWhatStandsAtItsEnd) {
  const auto found = parse(
      "ValueError: in user code:\n"
      "\n"
      "    /env/site-packages/keras/engine/training.py:835 run_step  **\n"
      "        outputs = model.train_step(data)\n"
      "\n"
      "    ValueError: Shape must be rank 2\n");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].message, "Shape must be rank 2");
  EXPECT_EQ(found[0].line, 6U);
  ASSERT_EQ(found[0].frames.size(), 1U);
  EXPECT_EQ(found[0].frames[0].code, "outputs = model.train_step(data)");
}

TEST(Traceback, WhoseIndentationWasLostIsReadTheSame) {
  const auto found = parse(
      "Traceback (most recent call last):\n"
      "File \"t.py\", line 1, in\n"
      "f()\n"
      "File \"t.py\", line 3, in f\n"
      "raise ValueError(\"x\")\n"
      "ValueError: x\n");
  ASSERT_EQ(found.size(), 1U);
  ASSERT_EQ(found[0].frames.size(), 2U);
  EXPECT_EQ(found[0].frames[1].code, "raise ValueError(\"x\")");
  EXPECT_EQ(found[0].line, 6U);
}

TEST(Traceback, ChainsOfBothKindsSayHowTheyBelongTogether) {
  const auto found = parse(
      "Traceback (most recent call last):\n"
      "  File \"a.py\", line 1, in f\n"
      "    open(p)\n"
      "FileNotFoundError: gone\n"
      "\n"
      "During handling of the above exception, another exception occurred:\n"
      "\n"
      "Traceback (most recent call last):\n"
      "  File \"a.py\", line 3, in f\n"
      "    raise RuntimeError(\"no data\")\n"
      "RuntimeError: no data\n"
      "\n"
      "The above exception was the direct cause of the following exception:\n"
      "\n"
      "Traceback (most recent call last):\n"
      "  File \"a.py\", line 9, in <module>\n"
      "    f()\n"
      "SystemExit: 1\n");
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].link, Link::kNone);
  EXPECT_EQ(found[1].link, Link::kDuringHandling);
  EXPECT_EQ(found[2].link, Link::kCause);
}

TEST(Traceback, OfADataLoaderWorkerIsTheInnerOne) {
  const auto found = parse(
      "ValueError: Caught ValueError in DataLoader worker process 0.\n"
      "Original Traceback (most recent call last):\n"
      "  File \"/env/site-packages/torch/utils/data/_utils/worker.py\", line 349, in _worker_loop\n"
      "    data = fetcher.fetch(index)\n"
      "  File \"/job/data.py\", line 5, in __getitem__\n"
      "    raise ValueError(\"bad\")\n"
      "ValueError: bad\n");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[1].link, Link::kInner);
  EXPECT_EQ(found[1].frames[0].role, FrameRole::kFramework);
  EXPECT_EQ(found[1].frames[1].role, FrameRole::kUser);
}

TEST(Traceback, OfIpythonIsReadFromItsArrows) {
  const auto found = parse(
      "---------------------------------------------------------------------------\n"
      "KeyError                                  Traceback (most recent call last)\n"
      "<ipython-input-3-57113dda3e8e> in <module>\n"
      "      1 x = {}\n"
      "----> 2 run(x)\n"
      "\n"
      "~/job/lib.py in run(table)\n"
      "     10 def run(table):\n"
      "---> 11     return table['w']\n"
      "\n"
      "KeyError: 'w'\n");
  ASSERT_EQ(found.size(), 1U);
  ASSERT_EQ(found[0].frames.size(), 2U);
  EXPECT_EQ(found[0].frames[1].line, 11);
  EXPECT_EQ(found[0].frames[1].code, "return table['w']");
  EXPECT_EQ(found[0].type, "KeyError");
}

TEST(Traceback, KeepsTheLinesOfALongMessage) {
  const auto found = parse(
      "RuntimeError: Error(s) in loading state_dict for Net:\n"
      "\tsize mismatch for fc.weight: copying a param with shape [10, 4]\n"
      "\n"
      "done\n");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].message.find("size mismatch for fc.weight"), std::string::npos);
  ASSERT_EQ(found[0].more_lines.size(), 1U);
  EXPECT_EQ(found[0].more_lines[0], 2U);
}

TEST(Traceback, OfASyntaxErrorHasNoFunction) {
  const auto found = parse(
      "  File \"train.py\", line 3\n"
      "    print 'a'\n"
      "          ^\n"
      "SyntaxError: Missing parentheses in call to 'print'\n");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].type, "SyntaxError");
  EXPECT_EQ(found[0].frames[0].line, 3);
}

TEST(Traceback, ThatTheInterpreterIgnoredIsMarked) {
  const auto found = parse(
      "Exception ignored in: <function Bar.__del__ at 0x7f>\n"
      "Traceback (most recent call last):\n"
      "  File \"a.py\", line 1, in __del__\n"
      "    self.close()\n"
      "AttributeError: 'Bar' object has no attribute 'close'\n");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].ignored);
}

TEST(Traceback, CutAtItsEndGivesNoType) {
  const auto found = parse(
      "Traceback (most recent call last):\n"
      "  File \"a.py\", line 1, in f\n"
      "    g()\n");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].type.empty());
}

TEST(Traceback, CutAtBothEndsStandsWhereItsFirstFrameStands) {
  const auto found = parse("epoch 3\n  File \"/job/train.py\", line 12, in main\n    step()\n");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].line, 2U);
  EXPECT_EQ(found[0].offset, 8U);
}

TEST(Traceback, OfTheJvmHasItsFramesBehindAndItsCauseLast) {
  const auto found = parse(
      "Exception in thread \"main\" org.apache.spark.SparkException: Job aborted\n"
      "\tat org.apache.spark.scheduler.DAGScheduler.failJob(DAGScheduler.scala:2059)\n"
      "\tat com.acme.train.Main$.fit(Main.scala:77)\n"
      "Caused by: java.io.FileNotFoundException: /data/x (No such file or directory)\n"
      "\tat java.base/java.io.FileInputStream.open0(Native Method)\n"
      "\tat com.acme.train.Reader.open(Reader.scala:31)\n"
      "\t... 12 more\n"
      "24/05/01 10:00:02 INFO SparkContext: Invoking stop()\n");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].type, "org.apache.spark.SparkException");
  EXPECT_EQ(found[0].message, "Job aborted");
  ASSERT_EQ(found[0].frames.size(), 2U);
  EXPECT_EQ(found[0].frames[0].function, "fit");
  EXPECT_EQ(found[0].frames[1].role, FrameRole::kFramework);
  EXPECT_EQ(found[1].link, Link::kInner);
  EXPECT_EQ(found[1].type, "java.io.FileNotFoundException");
  ASSERT_EQ(found[1].frames.size(), 2U);
  EXPECT_EQ(found[1].frames[0].file, "Reader.scala");
  EXPECT_EQ(found[1].frames[0].line, 31);
}

TEST(Traceback, OfTensorFlow1SaysCausedByAnOpAndIsNoCauseOfTheJvm) {
  const auto found = parse(
      "tensorflow.python.framework.errors_impl.InvalidArgumentError: bad shape\n"
      "Caused by op 'loss/sub', defined at:\n"
      "  File \"train.py\", line 12, in <module>\n");
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].link, Link::kNone);
}

TEST(Traceback, ThatWasCopiedFromAPageIsReadWithItsEntities) {
  EXPECT_EQ(clean_line("File &quot;a.py&quot;, in &lt;module&gt;: &#x27;x&#x27; &amp; y"),
            "File \"a.py\", in <module>: 'x' & y");
  EXPECT_EQ(clean_line("a && b &c; &amp;lt;"), "a && b &c; &lt;");
}

}  // namespace
}  // namespace paramedic::diagnose
