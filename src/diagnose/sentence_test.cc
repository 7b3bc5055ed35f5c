#include "diagnose/sentence.h"

#include <gtest/gtest.h>

#include <string>

#include "diagnose/diagnose.h"

namespace paramedic::diagnose {
namespace {

Verdict verdict_of(const std::string& log) { return diagnose_text("job.log", log).verdict; }

TEST(Unfold, ATracebackInsideAJsonRecordEndsWithItsString) {
  const auto lines =
      unfold(R"({"msg":"Traceback (most recent call last):\n  File \"t.py\", line 3, in f\n)"
             R"(    g()\nKeyError: 'loss'","rank":3})");
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[1], "  File \"t.py\", line 3, in f");
  EXPECT_EQ(lines[3], "KeyError: 'loss'");
}

TEST(Unfold, ATracebackWhoseLinesWereJoinedByBlanksIsTakenApart) {
  const auto lines = unfold(
      "Traceback (most recent call last):   File \"t.py\", line 3, in <module>     run(a)   File "
      "\"model.py\", line 9, in run     return self.scale * a AttributeError: 'Net' object has no "
      "attribute 'scale'");
  ASSERT_EQ(lines.size(), 6U);
  EXPECT_EQ(lines[2], "    run(a)");
  EXPECT_EQ(lines[4], "    return self.scale * a");
  EXPECT_EQ(lines[5], "AttributeError: 'Net' object has no attribute 'scale'");
}

TEST(Unfold, ALineThatOnlySpeaksOfATracebackStaysWhole) {
  EXPECT_TRUE(unfold("Traceback (most recent call last):").empty());
  EXPECT_TRUE(unfold("File \"t.py\", line 3, in f").empty());
}

TEST(Sentence, AnExceptionThatALineNamesIsFound) {
  const auto told = exception_in("[ERROR] worker 3 failed: KeyError: 'loss'");
  ASSERT_TRUE(told);
  EXPECT_EQ(told->type, "KeyError");
  EXPECT_EQ(told->message, "'loss'");
  EXPECT_EQ(exception_in("it ended with ValueError('bad rate')")->message, "'bad rate'");
}

TEST(Sentence, CodeThatHandlesOrRaisesAnExceptionTellsOfNone) {
  EXPECT_FALSE(exception_in("    except ImportError: pass"));
  EXPECT_FALSE(exception_in("    raise ValueError('no model')"));
  EXPECT_FALSE(exception_in("see the page of KeyError"));
}

TEST(Sentence, ItIsTheCauseOnlyWhereNothingIsSaidOutright) {
  EXPECT_EQ(name(verdict_of("job 7 failed: KeyError: 'loss'\n").category), "key_not_found");
  EXPECT_EQ(name(verdict_of("caught TypeError: 'int' object is not callable, will end\n"
                            "Traceback (most recent call last):\n"
                            "  File \"t.py\", line 3, in <module>\n"
                            "    run(table['loss'])\n"
                            "KeyError: 'loss'\n")
                     .category),
            "key_not_found");
}

}  // namespace
}  // namespace paramedic::diagnose
