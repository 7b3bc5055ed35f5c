#include "diagnose/literals.h"

#include <gtest/gtest.h>
#include <re2/re2.h>

#include <random>

namespace paramedic::diagnose {
namespace {

using Texts = std::vector<std::string>;

Texts literals_of(const std::string& expression) {
  const std::vector<Alternative> all = alternatives_of(expression);
  return all.size() == 1 ? all[0].literals : Texts{"several"};
}

TEST(Literals, OneOfThemStandsInWhateverMatches) {
  EXPECT_EQ(literals_of("out of memory"), Texts{"out of memory"});
  EXPECT_EQ(literals_of(R"(\bXid \(PCI:\d+)"), Texts{"xid (pci:"});
  EXPECT_EQ(literals_of("(?i)CUDA.{0,20}Error"), Texts{"error"});
  EXPECT_EQ(literals_of("(?:load|save)_(?:model|net)s?"),
            (Texts{"load_model", "load_models", "load_net", "load_nets", "save_model",
                   "save_models", "save_net", "save_nets"}));
  EXPECT_EQ(literals_of(R"((?:build|make)_(?:\w+_)?graphs?)"), (Texts{"graph", "graphs"}));
  EXPECT_EQ(literals_of("[Kk]illed"), Texts{"killed"});
  EXPECT_EQ(literals_of(R"(\w*Error\b)"), Texts{"error"});
  EXPECT_EQ(literals_of("没有 \\d"), Texts{"没有 "});
}

TEST(Literals, NothingIsKnownOfWhatMayMatchAnything) {
  for (const char* expression :
       {"", ".*", R"(\d+ \w)", "(?:abc)?", "(?:abc)*", "abc{0}", "(?:abc|.)x", "ab", "[^a]bc",
        R"(\x41bcd)", R"(\pLbcd)", "(?U)abc+?", "abc)", "(?:abc", "[[:alpha:]]abc", "(?i)é[a-z]"}) {
    EXPECT_EQ(literals_of(expression), Texts{}) << expression;
  }
}

TEST(Literals, AlternativesKeepTheFlagsThatHoldForThem) {
  const auto expressions = [](const std::string& whole) {
    Texts all;
    for (const Alternative& one : alternatives_of(whole)) all.push_back(one.expression);
    return all;
  };
  EXPECT_EQ(expressions("(?i)a|b(?:c|d)|[|]e"), (Texts{"(?i)a", "(?i)b(?:c|d)", "(?i)[|]e"}));
  EXPECT_EQ(expressions("a|(?i:b|c)|d"), (Texts{"a", "(?i:b|c)", "d"}));
  EXPECT_EQ(expressions("a|(?i)b|(?-i)c|d"), (Texts{"a", "(?i)b", "(?i)(?-i)c", "d"}));
  EXPECT_EQ(expressions(R"(a\|b|c)"), (Texts{R"(a\|b)", "c"}));
}

TEST(Literals, LettersThatIgnoringCaseTakesForSmallOnesAreFolded) {
  EXPECT_EQ(folded("FaiLED: ü 没有"), "failed: ü 没有");
  EXPECT_EQ(folded("\xc5\xbftack of \xe2\x84\xaa"), "stack of k");
  EXPECT_TRUE(RE2::FullMatch("\xc5\xbf\xe2\x84\xaa", "(?i)sk"));
}

// Expressions of all that the reader knows, by chance, and short texts that some of them match.
class Chance {
 public:
  explicit Chance(unsigned seed) : random_(seed) {}
  size_t below(size_t count) { return random_() % count; }

  std::string expression(int depth) {
    std::string text;
    const size_t alternatives = 1 + below(3) / 2;
    for (size_t i = 0; i < alternatives; ++i) {
      if (i > 0) text += '|';
      if (below(6) == 0) text += "(?i)";
      const size_t parts = 1 + below(4);
      for (size_t k = 0; k < parts; ++k) text += atom(depth) + quantifier();
    }
    return text;
  }
  std::string text() {
    static constexpr const char* kPieces[] = {"a", "b", "abc", "ABC", "s",   "\xc5\xbf",
                                              "ü", " ", "|",   "bca", "Cab", "aa"};
    std::string text;
    for (size_t i = below(9); i > 0; --i) text += kPieces[below(std::size(kPieces))];
    return text;
  }

 private:
  std::string atom(int depth) {
    static constexpr const char* kAtoms[] = {"a", "abc",  "bca",   "Cab",   R"(\w)",
                                             ".", "[ab]", "[^a]",  R"(\|)", R"(\b)",
                                             "ü", "s",    "[a-c]", "[sü]"};
    if (depth == 0 || below(3) > 0) return kAtoms[below(std::size(kAtoms))];
    static constexpr const char* kGroups[] = {"(?:", "(", "(?i:", "(?-i:"};
    return kGroups[below(std::size(kGroups))] + expression(depth - 1) + ")";
  }
  std::string quantifier() {
    static constexpr const char* kQuantifiers[] = {"",  "",  "",  "",    "",
                                                   "?", "*", "+", "{2}", "{0,2}"};
    return kQuantifiers[below(std::size(kQuantifiers))];
  }

  std::mt19937 random_;
};

TEST(Literals, WhateverAnExpressionMatchesOneAlternativeMatchesAndHoldsItsLiterals) {
  Chance chance(7);
  int matched = 0;
  int told = 0;
  for (int i = 0; i < 4000; ++i) {
    const std::string expression = chance.expression(2);
    const RE2 whole(expression, RE2::Quiet);
    if (!whole.ok()) continue;  // "**" and its like
    const std::vector<Alternative> alternatives = alternatives_of(expression);
    for (int k = 0; k < 20; ++k) {
      const std::string text = chance.text();
      bool found = false;
      bool fits = false;
      for (const Alternative& one : alternatives) {
        const RE2 part(one.expression, RE2::Quiet);
        ASSERT_TRUE(part.ok()) << expression << " → " << one.expression;
        if (!RE2::PartialMatch(text, part)) continue;
        found = true;
        fits = fits || RE2::FullMatch(text, part);
        bool holds = one.literals.empty();
        for (const std::string& literal : one.literals) {
          holds = holds || folded(text).find(literal) != std::string::npos;
        }
        ASSERT_TRUE(holds) << expression << " → " << one.expression << " in " << text;
        matched += 1;
        told += one.literals.empty() ? 0 : 1;
      }
      ASSERT_EQ(found, RE2::PartialMatch(text, whole)) << expression << " in " << text;
      ASSERT_EQ(fits, RE2::FullMatch(text, whole)) << expression << " is " << text;
    }
  }
  EXPECT_GT(matched, 5000);
  EXPECT_GT(told, 500);
}

}  // namespace
}  // namespace paramedic::diagnose
