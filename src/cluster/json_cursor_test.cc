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

TEST(json_cursor, of_an_object_like_the_one_before_only_what_changed_is_told) {
  JsonCursor json(R"([{"a": 1, "b": [2, "x"] , "c": 3},{"a": 1, "b": [2, "x"] , "c": 30},
    {"a": 1, "b": [2, "y"], "c": 30},{"a": 1, "c": 30},{"a": 1, "b": [], "c": 30}])");
  JsonLayout layout;
  std::vector<std::string> told;
  json.array([&] {
    std::string changed = "=";
    if (json.object_like(layout, [&](size_t i) { changed += std::to_string(i); })) {
      told.push_back(changed);
      return;
    }
    told.emplace_back();
    json.object(layout, [&](std::string_view key) { told.back() += key; });
  });
  EXPECT_EQ(json.error(), "");
  EXPECT_EQ(told, (std::vector<std::string>{"abc", "=12", "=1", "ac", "abc"}));
}

TEST(json_cursor, a_number_that_only_begins_like_the_one_before_is_another_one) {
  JsonCursor json(R"([{"a":1,"b":true},{"a":12,"b":true},{"a":12,"b":true}])");
  JsonLayout layout;
  std::vector<int64_t> values;
  int64_t value = 0;
  json.array([&] {
    const auto read = [&] { value = json.integer().value_or(-1); };
    if (!json.object_like(layout, [&](size_t i) { i == 0 ? read() : json.skip(); })) {
      json.object(layout, [&](std::string_view key) { key == "a" ? read() : json.skip(); });
    }
    values.push_back(value);
  });
  EXPECT_EQ(json.error(), "");
  EXPECT_EQ(values, (std::vector<int64_t>{1, 12, 12}));
}

TEST(json_cursor, what_is_malformed_in_an_object_like_the_one_before_is_an_error_too) {
  for (const char* text : {R"([{"a":1},{"a":)", R"([{"a":1},{"a":1)", R"([{"a":1},{"a":1]])",
                           R"([{"a":[1]},{"a":[1}])", R"([{"a":1},{"a":x}])"}) {
    JsonCursor json(text);
    JsonLayout layout;
    json.array([&] {
      if (!json.object_like(layout, [](size_t) {})) json.object(layout, [](std::string_view) {});
    });
    EXPECT_NE(json.error(), "") << text;
  }
}

TEST(json_cursor, whole_numbers_of_every_length_are_read_and_others_passed) {
  for (const char* text : {"0", "-7", "999999999999999999", "9223372036854775807",
                           "-9223372036854775808", "1796020775610692078"}) {
    EXPECT_EQ(JsonCursor(text).integer(), std::stoll(text)) << text;
    const std::string behind = std::string(text) + ",";
    EXPECT_EQ(JsonCursor(behind).integer(), std::stoll(text)) << text;
  }
  for (const char* text : {"9223372036854775808", "18446744073709551616", "1.5", "1e3", "-",
                           "99999999999999999999999"}) {
    JsonCursor json(text);
    EXPECT_FALSE(json.integer()) << text;
    EXPECT_TRUE(json.is_at_end()) << text;
  }
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
