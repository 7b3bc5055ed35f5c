#include "supervise/repeat.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "supervise/job_harness.h"

namespace paramedic::supervise {
namespace {

// What is shown of `output`, given in pieces of `piece` bytes, when `log` was printed before and
// the job goes on from `from`.
std::string shown(const std::string& log, size_t from, const std::string& output, size_t piece) {
  char name[] = "/tmp/repeat-XXXXXX";
  const Fd file(::mkstemp(name));
  ::unlink(name);
  EXPECT_EQ(write_all(file.get(), log), 0);
  Repeat repeat(from, log.size());
  std::string text;
  for (size_t at = 0; at < output.size(); at += piece) {
    const std::string_view bytes = std::string_view(output).substr(at, piece);
    const Repeat::Rest rest = repeat.pass(file.get(), bytes);
    text += rest.begun;
    text += rest.bytes;
  }
  return text;
}

TEST(repeat, what_was_printed_before_is_not_shown_again) {
  const std::string log = "start\nepoch 1\nepoch 2\nepo";
  for (const size_t piece : {1, 2, 3, 7, 100}) {
    EXPECT_EQ(shown(log, 6, "epoch 1\nepoch 2\nepoch 3\nend\n", piece), "ch 3\nend\n") << piece;
  }
}

TEST(repeat, line_that_is_another_one_is_shown_whole_and_all_after_it) {
  const std::string log = "a 1\nb 2\nc 3\n";
  for (const size_t piece : {1, 2, 5, 100}) {
    EXPECT_EQ(shown(log, 0, "a 1\nb 7\nc 3\nd\n", piece), "b 7\nc 3\nd\n") << piece;
  }
}

TEST(repeat, difference_in_the_line_of_the_snapshot_shows_only_what_came_after_it) {
  EXPECT_EQ(shown("step 1 took 5 s\n", 12, "6 s\nend\n", 3), "6 s\nend\n");
}

TEST(repeat, nothing_to_repeat_shows_everything) {
  EXPECT_EQ(shown("all of it\n", 10, "more\n", 2), "more\n");
  EXPECT_FALSE(Repeat().is_on());
}

TEST(repeat, log_that_became_shorter_shows_everything) {
  Repeat repeat(0, 100);
  const Repeat::Rest rest = repeat.pass(-1, "text\n");
  EXPECT_EQ(std::string(rest.begun) + std::string(rest.bytes), "text\n");
  EXPECT_FALSE(repeat.is_on());
}

TEST(repeat, more_than_a_buffer_is_dropped_at_once) {
  std::string log;
  for (int i = 0; i < 40'000; ++i) log += "line " + std::to_string(i) + "\n";
  EXPECT_EQ(shown(log, 0, log + "new\n", log.size() + 4), "new\n");
}

}  // namespace
}  // namespace paramedic::supervise
