// The person's editor: here `sed` and `true`.

#include "cli/source_edit.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/test_folder.h"

namespace paramedic::cli {
namespace {

class SourceEditTest : public testing::Test {
 protected:
  SourceEditTest() {
    EXPECT_TRUE(posix_file_system().write_atomically(path_, as_bytes(kText)).ok());
  }
  static constexpr const char* kText = "# why\nx = 1\ny = 2  # kept\n";
  const TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/it's mine.py";
};

TEST_F(SourceEditTest, what_was_changed_is_answered_as_a_diff_and_the_file_stays) {
  const auto plain = edit_source(path_, 2, "f() { sed -i 's/x = 1/x = 5/' \"$2\"; }; f");
  ASSERT_TRUE(plain.ok()) << plain.status().message();
  EXPECT_NE(plain->find("--- a/" + path_), std::string::npos) << *plain;
  EXPECT_NE(plain->find("\n-x = 1\n+x = 5\n y = 2  # kept\n"), std::string::npos) << *plain;
  EXPECT_EQ(posix_file_system().read(path_).value(), kText);
}

TEST_F(SourceEditTest, nothing_changed_is_no_diff) {
  const auto patch = edit_source(path_, 2, "true");
  ASSERT_TRUE(patch.ok()) << patch.status().message();
  EXPECT_EQ(*patch, "");
}

TEST_F(SourceEditTest, an_editor_that_fails_changes_nothing) {
  EXPECT_FALSE(edit_source(path_, 2, "false").ok());
  EXPECT_FALSE(edit_source(path_, 2, "no-such-editor-anywhere").ok());
  EXPECT_FALSE(edit_source(folder_.path() + "/none.py", 2, "true").ok());
}

}  // namespace
}  // namespace paramedic::cli
