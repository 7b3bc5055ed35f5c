#include "diagnose/manual.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/test_folder.h"

namespace paramedic::diagnose {
namespace {

TEST(Manual, IsThePageOfTheCheckout) {
  const std::string path = PARAMEDIC_SOURCE_DIR "/docs/diagnosis.md";
  const std::string page = manual(Catalog::builtin());
  if (std::getenv("UPDATE_GOLDEN") != nullptr) write_file(path, page);
  EXPECT_EQ(read_file(path), page) << "UPDATE_GOLDEN=1 rewrites it";
}

}  // namespace
}  // namespace paramedic::diagnose
