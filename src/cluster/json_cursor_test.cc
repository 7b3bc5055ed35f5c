#include "cluster/json_cursor.h"

#include <gtest/gtest.h>

#include <vector>

namespace paramedic::cluster {
namespace {

std::string error_of(const std::string& text) {
  JsonCursor json(text);
  json.skip();
  if (json.error().empty() && !json.is_at_end()) return "more";
  return json.error();
}

TEST(json_cursor, members_are_read_or_passed_over_and_escapes_are_resolved) {
  JsonCursor json(R"( {"a": [1, -2, 3.5, "4"], "b\n": "\u00e4\ud83d\ude00\"", "c": {"d": [{}]},
                       "e": true} )");
  std::vector<std::optional<int64_t>> numbers;
  std::vector<std::string> keys;
  std::string text;
  json.object([&](std::string_view key) {
    keys.emplace_back(key);
    if (key == "a") json.array([&] { numbers.push_back(json.integer()); });
    if (key == "b\n") text = json.string();
  });
  EXPECT_EQ(json.error(), "");
  EXPECT_TRUE(json.is_at_end());
  EXPECT_EQ(keys, (std::vector<std::string>{"a", "b\n", "c", "e"}));
  ASSERT_EQ(numbers.size(), 4U);
  EXPECT_EQ(numbers[0], 1);
  EXPECT_EQ(numbers[1], -2);
  EXPECT_FALSE(numbers[2]);
  EXPECT_FALSE(numbers[3]);
  EXPECT_EQ(text, "ä😀\"");
}

TEST(json_cursor, a_look_at_the_kind_of_a_value_does_not_pass_it) {
  JsonCursor json(R"([ 1,  "x", null ])");
  std::vector<JsonCursor::Kind> kinds;
  json.array([&] { kinds.push_back(json.next()); });
  EXPECT_EQ(json.error(), "");
  using Kind = JsonCursor::Kind;
  EXPECT_EQ(kinds, (std::vector<Kind>{Kind::kNumber, Kind::kString, Kind::kNull}));
}

TEST(json_cursor, what_is_malformed_is_an_error_with_its_offset_and_ends_the_reading) {
  for (const char* text :
       {"", "{", "[1", "[1,", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1,}", "{a:1}", "[tru]",
        "\"a", "\"\\q\"", "\"\\u12", "\"\\ud800x\"", "[1 2]", "nul", "]"}) {
    EXPECT_NE(error_of(text), "") << text;
  }
  EXPECT_EQ(error_of("[1, x]"), "no value begins like this at offset 4");
  EXPECT_EQ(error_of("[] []"), "more");
  for (const char* text : {"[]", "{}", " [ { } , null , \"\" , 1e-5 ] ", "18446744073709551616"}) {
    EXPECT_EQ(error_of(text), "") << text;
  }
}

TEST(json_cursor, values_that_lie_too_deep_are_refused) {
  EXPECT_EQ(error_of(std::string(60, '[') + std::string(60, ']')), "");
  EXPECT_NE(error_of(std::string(100'000, '[')), "");
}

}  // namespace
}  // namespace paramedic::cluster
