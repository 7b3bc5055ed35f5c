#include "diagnose/category.h"

#include <gtest/gtest.h>

namespace paramedic::diagnose {
namespace {

TEST(Category, EveryCategoryIsFoundByItsName) {
  for (int i = 0; i < kCategoryCount; ++i) {
    const auto category = static_cast<Category>(i);
    EXPECT_EQ(category_named(name(category)), category);
    EXPECT_EQ(info(category).category, category) << name(category);
    EXPECT_FALSE(info(category).title.empty());
  }
  EXPECT_EQ(category_named("no_such_category"), std::nullopt);
}

TEST(Category, TheLastNameOfEachListIsThatOfTheLastValue) {
  EXPECT_EQ(name(Domain::kUnknown), "unknown");
  EXPECT_EQ(name(Retry::kUnknown), "unknown");
  EXPECT_EQ(name(Stage::kUnknown), "unknown");
  EXPECT_EQ(name(Role::kTeardown), "teardown");
  EXPECT_EQ(domain_named("hardware"), Domain::kHardware);
  EXPECT_EQ(retry_named("after_delay"), Retry::kAfterDelay);
  EXPECT_EQ(stage_named("checkpoint"), Stage::kCheckpoint);
  EXPECT_EQ(role_named("advice"), Role::kAdvice);
}

}  // namespace
}  // namespace paramedic::diagnose
