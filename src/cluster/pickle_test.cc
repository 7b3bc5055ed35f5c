#include "cluster/pickle.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "cluster/pickle_cursor.h"

namespace paramedic::cluster {
namespace {

std::string bytes_of(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

Result<Json> json_of(const std::string& bytes) {
  PARAMEDIC_ASSIGN(const PickleValues values, read_pickle(as_bytes(bytes)));
  return to_json(values);
}

Result<Json> parse(const std::string& hex) { return json_of(bytes_of(hex)); }

// pickle.dumps({'a': [1, 2, (3, -4)], 'b': None, 'c': 1.5, 'd': True, 'e': 2**40, 'f': -2**40,
//               'g': {5: 'x'}}, 2)
constexpr const char* kPlain =
    "80027d71002858010000006171015d7102284b014b024b034afcffffff8671036558010000006271044e580100000"
    "0637105473ff800000000000058010000006471068858010000006571078a0600000000000158010000006671088a"
    "060000000000ff58010000006771097d710a4b05580100000078710b73752e";

TEST(pickle, plain_data_becomes_json_with_every_kind_of_number_and_container) {
  const auto value = parse(kPlain);
  ASSERT_TRUE(value.ok()) << value.status().message();
  EXPECT_EQ(to_text(*value), R"({"a":[1,2,[3,-4]],"b":null,"c":1.5,"d":true,"e":1099511627776,)"
                             R"("f":-1099511627776,"g":{"5":"x"}})");
}

TEST(pickle, an_opcode_that_would_import_is_refused_and_named) {
  // pickle.dumps(os.getcwd, 2)
  const auto value = parse("800263706f7369780a6765746377640a71002e");
  ASSERT_FALSE(value.ok());
  EXPECT_EQ(value.status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(value.status().message(),
            "the pickle is more than plain data: opcode 0x63 at offset 2 imports a name");
}

TEST(pickle, every_cut_is_an_error_with_its_offset_and_no_crash) {
  const std::string whole = bytes_of(kPlain);
  for (size_t length = 0; length < whole.size(); ++length) {
    const auto value = json_of(whole.substr(0, length));
    ASSERT_FALSE(value.ok()) << length;
    EXPECT_NE(value.status().message().find(" at offset "), std::string::npos);
  }
}

TEST(pickle, a_list_that_holds_itself_meets_the_limit_of_depth) {
  // l = []; l.append(l)
  const auto value = parse("80025d71006800612e");
  ASSERT_FALSE(value.ok());
  EXPECT_EQ(value.status().message(), "the pickle is nested too deeply");
}

TEST(pickle, a_small_file_that_unfolds_without_end_meets_the_limit_of_values) {
  // Each list holds the one before ten times: EMPTY_LIST, MARK, ten BINGET, APPENDS, BINPUT, POP.
  std::string bytes = "\x80\x02]q" + std::string(1, '\0') + "0";
  for (char level = 0; level < 9; ++level) {
    bytes += "](";
    for (int i = 0; i < 10; ++i) (bytes += 'h') += level;
    ((bytes += "eq") += static_cast<char>(level + 1)) += '0';
  }
  const auto value = json_of(bytes + "h\x09.");
  ASSERT_FALSE(value.ok());
  EXPECT_NE(value.status().message().find("too many values"), std::string::npos)
      << value.status().message();
}

TEST(pickle, a_list_that_grows_after_others_were_made_keeps_its_items) {
  // a, b = [], []; 300 times: a.append(1), b.append(a number of its own); [a, b]
  std::string bytes = "\x80\x02]q" + std::string(1, '\0') + "0]q\x01";
  bytes += '0';
  Json expected = Json::parse("[[], []]");
  for (int i = 0; i < 300; ++i) {
    bytes += std::string("h") + '\0' + "K\x01" + "a0h\x01M" + static_cast<char>(i % 256);
    bytes += std::string(1, static_cast<char>(i / 256)) + "a0";
    expected[0].push_back(1);
    expected[1].push_back(i);
  }
  const auto value = json_of(bytes + "h" + '\0' + "h\x01\x86.");
  ASSERT_TRUE(value.ok()) << value.status().message();
  EXPECT_EQ(*value, expected);
}

TEST(pickle, a_place_in_the_memo_that_no_pickle_needs_is_refused) {
  const auto value = json_of("\x80\x02Nr\xff\xff\xff\xff.");
  ASSERT_FALSE(value.ok());
  EXPECT_NE(value.status().message().find("remembers too many values"), std::string::npos);
}

TEST(pickle, what_unfolds_without_end_ends_the_walk_through_its_values_too) {
  // A dict whose values are lists that hold the list before ten times each, nine levels deep.
  std::string bytes = "\x80\x02]q" + std::string(1, '\0') + "0";
  for (char level = 0; level < 9; ++level) {
    bytes += "](";
    for (int i = 0; i < 10; ++i) (bytes += 'h') += level;
    ((bytes += "eq") += static_cast<char>(level + 1)) += '0';
  }
  bytes += "h\x09.";
  const auto values = read_pickle(as_bytes(bytes));
  ASSERT_TRUE(values.ok());
  PickleCursor cursor(*values);
  const std::function<void()> walk = [&] { cursor.array(walk); };
  walk();
  EXPECT_EQ(cursor.error(), "it unfolds to too many values");
}

}  // namespace
}  // namespace paramedic::cluster
