#include "probe/plan.h"

#include <gtest/gtest.h>

#include <limits>

namespace paramedic::probe {
namespace {

using record::Kind;

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

Collection one(std::string_view options) {
  Result<Plan> plan = parse_plan("collection c kind=weight " + std::string(options));
  EXPECT_TRUE(plan.ok()) << plan.status().to_string();
  return std::move(plan.value().collections.at(0));
}

std::string error_of(std::string_view text) {
  const Result<Plan> plan = parse_plan(text);
  if (plan.ok()) return "";
  EXPECT_EQ(plan.status().code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(plan.status().hint().empty()) << plan.status().message();
  return plan.status().message();
}

TEST(Plan, reads_every_key) {
  const Result<Plan> plan = parse_plan(
      "# gradients of the weights only\r\n"
      "\n"
      "  collection gradients kind=gradient,weight mode=train,eval interval=5 start=2 end=20 "
      "steps=7,3,7 what=histogram,prod regex=\\.weight$|a b\n");
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  ASSERT_EQ(plan.value().collections.size(), 1u);
  const Collection& collection = plan.value().collections[0];
  EXPECT_EQ(collection.name, "gradients");
  EXPECT_EQ(collection.kinds, 0b11u);
  EXPECT_EQ(collection.modes, 0b11u);
  EXPECT_EQ(collection.interval, 5);
  EXPECT_EQ(collection.start, 2);
  EXPECT_EQ(collection.end, 20);
  EXPECT_EQ(collection.steps, (std::vector<int64_t>{3, 7}));
  EXPECT_EQ(collection.what, kWhatStats | kWhatHistogram | kWhatProduct);
  EXPECT_TRUE(collection.pattern.matches("net.0.weight"));
  EXPECT_TRUE(collection.pattern.matches("a b c"));
  EXPECT_FALSE(collection.pattern.matches("net.0.bias"));
}

TEST(Plan, an_empty_text_is_the_default_plan) {
  const Result<Plan> plan = parse_plan("  \n# nothing\n");
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan.value().collections.size(), 3u);
  EXPECT_TRUE(plan.value().collections[0].is_due(10));
  EXPECT_FALSE(plan.value().collections[2].is_due(10));
  EXPECT_TRUE(plan.value().collections[2].is_due(50));
  EXPECT_EQ(plan.value().collections[2].what, kWhatStats | kWhatUnits);
}

TEST(Plan, interval_start_end_and_steps_say_what_is_due) {
  const Collection every = one("interval=1");
  EXPECT_TRUE(every.is_due(0));
  EXPECT_EQ(every.next_due(7), 7);
  const Collection window = one("interval=10 start=5 end=25");
  EXPECT_EQ(window.next_due(0), 5);
  EXPECT_EQ(window.next_due(6), 15);
  EXPECT_EQ(window.next_due(16), kNever);
  const Collection listed = one("interval=0 steps=3,9");
  EXPECT_EQ(listed.next_due(0), 3);
  EXPECT_EQ(listed.next_due(4), 9);
  EXPECT_EQ(listed.next_due(10), kNever);
  EXPECT_TRUE(listed.is_explicit(9));
  const Collection both = one("interval=100 start=50 steps=3,60");
  EXPECT_EQ(both.next_due(4), 50);
  EXPECT_EQ(both.next_due(51), 60);
  EXPECT_FALSE(both.is_explicit(50));
}

TEST(Plan, steps_at_the_end_of_the_numbers_do_not_overflow) {
  EXPECT_EQ(one("interval=10").next_due(kNever), kNever);
  EXPECT_EQ(one("interval=9223372036854775807").next_due(1), kNever);
  EXPECT_EQ(one("interval=9223372036854775807 start=9223372036854775807").next_due(0), kNever);
}

TEST(Plan, a_tensor_belongs_to_the_collections_of_its_kind_whose_regex_it_matches) {
  const Plan plan = parse_plan(
                        "collection a kind=gradient regex=\\.weight$\n"
                        "collection b kind=all\n"
                        "collection c kind=gradient regex=^encoder\n")
                        .value();
  EXPECT_EQ(plan.collections_of(Kind::kGradient, "net.0.weight"), 0b011u);
  EXPECT_EQ(plan.collections_of(Kind::kGradient, "encoder.bias"), 0b110u);
  EXPECT_EQ(plan.collections_of(Kind::kActivation, "net.0.weight"), 0b010u);
  EXPECT_EQ(plan.collections_of(Kind::kScalar, "loss"), 0u) << "scalars need no plan";
}

TEST(Plan, one_name_may_have_one_line_for_each_mode) {
  EXPECT_EQ(error_of("collection a kind=weight mode=train\n"
                     "collection a kind=weight mode=eval interval=100\n"),
            "");
  EXPECT_NE(error_of("collection a kind=weight\ncollection a kind=gradient\n").find("line 2"),
            std::string::npos);
}

TEST(Plan, an_error_names_line_column_and_what_is_wrong) {
  EXPECT_EQ(error_of("collection a kind=weight\ncollection b kind=weights"),
            "capture plan, line 2, column 19: unknown word \"weights\"");
  EXPECT_EQ(error_of("collection a kind=weight,grad"),
            "capture plan, line 1, column 26: unknown word \"grad\"");
  EXPECT_EQ(error_of("collection a kind=weight intervall=3"),
            "capture plan, line 1, column 26: unknown key \"intervall\"");
  EXPECT_EQ(error_of("collection a kind=weight interval=-1"),
            "capture plan, line 1, column 35: \"-1\" is not a whole number from 0 on");
  EXPECT_EQ(error_of("collection a kind=weight steps=1,x"),
            "capture plan, line 1, column 34: \"x\" is not a whole number from 0 on");
  EXPECT_EQ(error_of("weights kind=weight"),
            "capture plan, line 1, column 1: a line begins with \"collection\"");
  EXPECT_EQ(error_of("collection kind=weight"),
            "capture plan, line 1, column 12: the collection has no name");
  EXPECT_EQ(error_of("collection a kind=weight what"),
            "capture plan, line 1, column 26: \"what\" is not KEY=VALUE");
  EXPECT_EQ(error_of("collection a kind=weight kind=weight"),
            "capture plan, line 1, column 26: \"kind\" stands twice");
  EXPECT_EQ(error_of("collection a interval=3"),
            "capture plan, line 1, column 1: collection \"a\" has no kind");
  EXPECT_EQ(error_of("collection a kind=weight interval=0"),
            "capture plan, line 1, column 1: collection \"a\" is never captured");
  EXPECT_EQ(error_of("collection a kind=weight regex=("),
            "capture plan, line 1, column 32: the regex \"(\" is not valid: Unmatched ( or \\(");
}

TEST(Plan, a_regex_that_could_take_for_ever_is_refused_or_takes_no_longer) {
  EXPECT_NE(error_of("collection a kind=weight regex=(a{9}){9}").find("braces"), std::string::npos);
  EXPECT_NE(error_of("collection a kind=weight regex=((((((((((a+)+)+)+)+)+)+)+)+)+)").find("'+'"),
            std::string::npos);
  EXPECT_NE(error_of("collection a kind=weight regex=(a*)\\1").find("references"),
            std::string::npos);
  const Plan plan = parse_plan("collection a kind=weight regex=(a*)*(a|aa)*b$").value();
  EXPECT_EQ(plan.collections_of(Kind::kWeight, std::string(500, 'a')), 0u);
}

TEST(Plan, what_is_too_large_is_refused) {
  std::string text;
  for (size_t i = 0; i <= kCollectionsMax; i++) {
    text += "collection c" + std::to_string(i) + " kind=weight\n";
  }
  EXPECT_NE(error_of(text).find("more than 32 collections"), std::string::npos);
  EXPECT_NE(error_of(std::string(kPlanBytesMax + 1, ' ')).find("65537 bytes"), std::string::npos);
  EXPECT_NE(error_of("collection a kind=weight regex=" + std::string(300, 'x')).find("longer"),
            std::string::npos);
  std::string steps = "collection a kind=weight steps=0";
  for (size_t i = 1; i <= kExplicitStepsMax; i++) steps += "," + std::to_string(i);
  EXPECT_NE(error_of(steps).find("more than 256 steps"), std::string::npos);
}

}  // namespace
}  // namespace paramedic::probe
