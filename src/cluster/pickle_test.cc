#include "cluster/pickle.h"

#include <gtest/gtest.h>

#include <string>

namespace paramedic::cluster {
namespace {

std::string bytes_of(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

Result<Json> parse(const std::string& hex) { return parse_pickle(as_bytes(bytes_of(hex))); }

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
    const auto value = parse_pickle(as_bytes(std::string_view(whole).substr(0, length)));
    ASSERT_FALSE(value.ok()) << length;
    EXPECT_NE(value.status().message().find(" at offset "), std::string::npos);
  }
}

TEST(pickle, a_list_that_holds_itself_meets_the_limit_of_depth) {
  // l = []; l.append(l)
  const auto value = parse("80025d71006800612e");
  ASSERT_FALSE(value.ok());
  EXPECT_EQ(value.status().message(), "the pickle is nested too deeply at offset 8");
}

TEST(pickle, a_small_file_that_unfolds_without_end_meets_the_limit_of_values) {
  // Each list holds the one before ten times: EMPTY_LIST, MARK, ten BINGET, APPENDS, BINPUT, POP.
  std::string bytes = "\x80\x02]q" + std::string(1, '\0') + "0";
  for (char level = 0; level < 9; ++level) {
    bytes += "](";
    for (int i = 0; i < 10; ++i) (bytes += 'h') += level;
    ((bytes += "eq") += static_cast<char>(level + 1)) += '0';
  }
  const auto value = parse_pickle(as_bytes(bytes + "h\x09."));
  ASSERT_FALSE(value.ok());
  EXPECT_NE(value.status().message().find("too many values"), std::string::npos)
      << value.status().message();
}

}  // namespace
}  // namespace paramedic::cluster
