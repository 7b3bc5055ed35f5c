// JSON and TOML, whose libraries throw: nothing may pass this edge but a Status. And lines, paths
// and medians.
#include <gtest/gtest.h>

#include "base/in_order.h"
#include "base/json.h"
#include "base/lines.h"
#include "base/median.h"
#include "base/path.h"
#include "base/toml.h"

namespace paramedic {
namespace {

TEST(Json, keeps_the_order_of_members) {
  Json json;
  json["zeta"] = 1;
  json["alpha"] = nullptr;
  EXPECT_EQ(to_text(json), R"({"zeta":1,"alpha":null})");
}

TEST(Json, an_error_names_the_text) {
  const Status status = parse_json("{\"a\": ", "run.json of r7").status();
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_TRUE(status.message().starts_with("run.json of r7 is not valid JSON")) << status.message();
}

TEST(Json, writes_invalid_utf8_as_replacement_characters) {
  EXPECT_EQ(to_text(Json("a\xff")), "\"a\xef\xbf\xbd\"");
}

TEST(Json, reads_members_of_the_wrong_type_as_missing) {
  const Json json = parse_json(R"({"n": "x", "s": 1.5})", "test").value();
  EXPECT_EQ(number_or(json, "n", 7), 7);
  EXPECT_EQ(string_or(json, "s", "none"), "none");
  EXPECT_EQ(integer_or(json, "s", 3), 3);
  EXPECT_EQ(number_or(Json(3), "s", 4), 4);
}

TEST(Json, reads_a_negative_number_as_no_count) {
  const Json json = parse_json(R"({"n": -1, "m": 18446744073709551615})", "test").value();
  EXPECT_EQ(unsigned_or(json, "n", 7), 7U);
  EXPECT_EQ(unsigned_or(json, "m", 7), UINT64_MAX);
  EXPECT_EQ(unsigned_or(Json{{"k", 5}}, "k", 7), 5U);
}

TEST(Toml, becomes_the_same_values_as_json) {
  const auto json = parse_toml("a = 1\nb = [true, 'x']\n[c]\nd = 0.5\n", "paramedic.toml");
  EXPECT_EQ(to_text(json.value()), R"({"a":1,"b":[true,"x"],"c":{"d":0.5}})");
}

TEST(Toml, an_error_names_file_line_and_column) {
  const Status status = parse_toml("a = 1\nb = [", "paramedic.toml").status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(status.message().starts_with("paramedic.toml:2:")) << status.message();
}

TEST(Lines, the_last_line_needs_no_end_and_nothing_comes_after_it) {
  std::string_view text = "one\n\nthree\n";
  EXPECT_EQ(first_line(text), "one");
  EXPECT_EQ(take_line(text), "one");
  EXPECT_EQ(take_line(text), "");
  EXPECT_EQ(take_line(text), "three");
  EXPECT_TRUE(text.empty());
  text = "all";
  EXPECT_EQ(first_line(text), "all");
  EXPECT_EQ(take_line(text), "all");
  EXPECT_TRUE(text.empty());
  EXPECT_EQ(take_line(text), "");
}

TEST(Path, the_base_name_is_what_stands_behind_the_last_slash) {
  EXPECT_EQ(base_name("/job/src/train.py"), "train.py");
  EXPECT_EQ(base_name("train.py"), "train.py");
  EXPECT_EQ(base_name("runs/"), "");
  EXPECT_EQ(base_name(""), "");
}

TEST(Path, the_folder_is_what_stands_before_the_last_slash) {
  EXPECT_EQ(folder_of("/job/src/train.py"), "/job/src");
  EXPECT_EQ(folder_of("/train.py"), "/");
  EXPECT_EQ(folder_of("train.py"), "");
  EXPECT_EQ(folder_of("runs/"), "runs");
  EXPECT_EQ(folder_of(""), "");
}

TEST(InOrder, a_list_is_ascending_with_each_value_once) {
  std::vector<int> values = {3, 1, 3, 2};
  put_in_order(values);
  EXPECT_EQ(values, (std::vector{1, 2, 3}));
  put_in_order(values);
  EXPECT_EQ(values, (std::vector{1, 2, 3}));
  std::vector<int> twice = {1, 1};
  put_in_order(twice);
  EXPECT_EQ(twice, (std::vector{1}));
}

TEST(Median, is_the_middle_or_the_mean_of_the_two_in_the_middle) {
  EXPECT_EQ(median_of({}), 0);
  EXPECT_EQ(median_of({3, 1, 2}), 2);
  EXPECT_EQ(median_of({4, 1, 2, 3}), 2.5);
}

}  // namespace
}  // namespace paramedic
