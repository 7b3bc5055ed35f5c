#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace paramedic {
namespace {

TEST(Crc32c, gives_the_check_value_of_the_standard) {
  EXPECT_EQ(crc32c("123456789", 9), 0xe3069283u);
  EXPECT_EQ(crc32c("", 0), 0u);
}

TEST(Crc32c, instruction_and_table_agree_on_random_lengths_and_alignments) {
  std::mt19937 random(1);
  std::vector<char> bytes(4096);
  for (char& byte : bytes) byte = static_cast<char>(random());
  for (int i = 0; i < 2000; i++) {
    const size_t start = random() % 64;
    const size_t length = random() % (bytes.size() - 64);
    const auto seed = static_cast<uint32_t>(random());
    ASSERT_EQ(crc32c(bytes.data() + start, length, seed),
              crc32c_portable(bytes.data() + start, length, seed));
  }
}

TEST(Crc32c, continues_over_a_split) {
  const std::string text = "a ring, a record, a batch";
  for (size_t split = 0; split <= text.size(); split++) {
    EXPECT_EQ(crc32c(text.data() + split, text.size() - split, crc32c(text.data(), split)),
              crc32c(text.data(), text.size()));
  }
}

}  // namespace
}  // namespace paramedic
