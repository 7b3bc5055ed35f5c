#include "diagnose/literals.h"

#include <gtest/gtest.h>
#include <re2/re2.h>

#include <algorithm>
#include <memory>
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
  EXPECT_EQ(literals_of(R"((?:build|make)_(?:\w+_)?graphs?)"), (Texts{"build_", "make_"}));
  EXPECT_EQ(literals_of(R"((?:a|of)_(?:\w+_)?graphs?)"), (Texts{"graph", "graphs"}));
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

  // Flags that change from one letter to the next are left out: RE2 itself loses the "A" of
  // "[ab]|(?i)a".
  std::string flagged_expression() { return (below(3) == 0 ? "(?i)" : "") + expression(2); }
  std::string expression(int depth) {
    std::string text;
    const size_t alternatives = 1 + below(3) / 2;
    for (size_t i = 0; i < alternatives; ++i) {
      if (i > 0) text += '|';
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
    static constexpr const char* kAtoms[] = {"a",     "abc",  "bca",      "Cab",      R"(\w)", ".",
                                             "[ab]",  "[^a]", "ü",        R"(\|)",    R"(\b)", "s",
                                             "[a-c]", "[sü]", "(?i:Cab)", "(?-i:abC)"};
    if (depth == 0 || below(3) > 0) return kAtoms[below(std::size(kAtoms))];
    return (below(2) == 0 ? "(?:" : "(") + expression(depth - 1) + ")";
  }
  std::string quantifier() {
    static constexpr const char* kQuantifiers[] = {"",  "",  "",  "",    "",
                                                   "?", "*", "+", "{2}", "{0,2}"};
    return kQuantifiers[below(std::size(kQuantifiers))];
  }

  std::mt19937 random_;
};

bool holds_one(const std::string& text, const Texts& literals) {
  return literals.empty() ||
         std::any_of(literals.begin(), literals.end(), [&](const std::string& literal) {
           return text.find(literal) != std::string::npos;
         });
}

TEST(Literals, WhateverAnExpressionMatchesOneAlternativeMatchesAndHoldsItsLiterals) {
  Chance chance(7);
  int matched = 0;
  int told = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::string expression = chance.flagged_expression();
    const RE2 whole(expression, RE2::Quiet);
    if (!whole.ok()) continue;  // "**" and its like
    const std::vector<Alternative> alternatives = alternatives_of(expression);
    std::vector<std::unique_ptr<RE2>> parts;
    for (const Alternative& one : alternatives) {
      parts.push_back(std::make_unique<RE2>(one.expression, RE2::Quiet));
      ASSERT_TRUE(parts.back()->ok()) << expression << " → " << one.expression;
    }
    for (int k = 0; k < 12; ++k) {
      const std::string text = chance.text();
      bool found = false;
      bool fits = false;
      for (size_t p = 0; p < parts.size(); ++p) {
        if (!RE2::PartialMatch(text, *parts[p])) continue;
        found = true;
        fits = fits || RE2::FullMatch(text, *parts[p]);
        matched += 1;
        told += alternatives[p].literals.empty() ? 0 : 1;
        EXPECT_TRUE(holds_one(folded(text), alternatives[p].literals))
            << expression << " → " << alternatives[p].expression << " in " << text;
      }
      ASSERT_EQ(found, RE2::PartialMatch(text, whole)) << expression << " in " << text;
      ASSERT_EQ(fits, RE2::FullMatch(text, whole)) << expression << " is " << text;
    }
  }
  EXPECT_GT(matched, 2000);
  EXPECT_GT(told, 200);
}

}  // namespace
}  // namespace paramedic::diagnose
