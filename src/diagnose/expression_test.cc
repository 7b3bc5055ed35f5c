#include "diagnose/expression.h"

#include <gtest/gtest.h>

#include <thread>

#include "diagnose/signature.h"

namespace paramedic::diagnose {
namespace {

TEST(Expression, IsFoundWhereOneOfItsAlternativesIs) {
  const Expression expression("(?i)out of memory|killed by (?:the )?kernel");
  EXPECT_TRUE(expression.occurs_in(Subject("CUDA Out of Memory.")));
  EXPECT_TRUE(expression.occurs_in(Subject("was Killed by the Kernel")));
  EXPECT_FALSE(expression.occurs_in(Subject("killed by a kernel")));
  EXPECT_TRUE(expression.fits(Subject("Out of memory")));
  EXPECT_FALSE(expression.fits(Subject("Out of memory.")));
}

TEST(Expression, WhatIsWrongWithItIsSaidByItsCheckAlone) {
  EXPECT_TRUE(Expression("a(?:b|c)").check().ok());
  EXPECT_FALSE(Expression("a(?:b|c").check().ok());
  EXPECT_FALSE(Expression("a{100000}").check().ok());
  EXPECT_FALSE(Expression("a|*b").check().ok());
}

TEST(Expression, ManyThreadsMayBeTheFirstToNeedIt) {
  const Expression expression("needle \\d+|other");
  std::vector<std::thread> threads;
  std::atomic<int> found{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 50; ++k) found += expression.occurs_in(Subject("a needle 12")) ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(found, 8 * 50);
}

std::vector<uint32_t> owners(const Sieve& sieve, const std::string& text) {
  std::vector<uint32_t> found;
  sieve.visit(Subject(text), [&](const Sieve::Candidate& candidate) {
    found.push_back(candidate.owner);
    return false;
  });
  return found;
}

TEST(Sieve, LetsThroughWhoseLiteralsAreThereInTheOrderInWhichTheyWereAdded) {
  const Expression memory("(?i)out of memory");
  const Expression disk("no space|disk full");
  const Expression any("\\d+");
  Sieve sieve;
  for (const auto& part : disk.parts()) sieve.add(*part, 10);
  sieve.add(*any.parts()[0], 11);
  sieve.add_always(12);
  sieve.add(*memory.parts()[0], 13);
  sieve.finish();
  EXPECT_EQ(owners(sieve, ""), (std::vector<uint32_t>{11, 12}));
  EXPECT_EQ(owners(sieve, "it is out of memory"), (std::vector<uint32_t>{11, 12, 13}));
  EXPECT_EQ(owners(sieve, "Out of Memory, no space, disk full"),
            (std::vector<uint32_t>{10, 10, 11, 12, 13}));
  EXPECT_EQ(owners(sieve, "out of memor"), (std::vector<uint32_t>{11, 12}));
}

// What makes the start cheap: an expression without a literal is compiled for the first text.
TEST(Sieve, NearlyEveryExpressionOfTheCatalogIsLeftOutOfATextThatHoldsNoneOfItsLiterals) {
  size_t all = 0;
  size_t without = 0;
  const auto count = [&](const Expression* expression) {
    for (const auto& part : expression->parts()) {
      ++all;
      without += part->literals().empty() ? 1 : 0;
    }
  };
  for (const auto& signature : Catalog::builtin().signatures()) {
    for (const Expression* pattern : signature->patterns) count(pattern);
    if (signature->patterns.empty() && signature->exception != nullptr) count(signature->exception);
  }
  for (const StageRule& rule : Catalog::builtin().stages()) {
    if (rule.frame != nullptr) count(rule.frame);
    if (rule.line != nullptr) count(rule.line);
  }
  EXPECT_LT(without * 50, all) << without << " of " << all;
}

}  // namespace
}  // namespace paramedic::diagnose
