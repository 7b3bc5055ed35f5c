// The promise of the ring: whatever was committed before a kill -9 is read back whole.

#include <sys/wait.h>

#include <csignal>
#include <random>

#include "record/test_ring.h"

namespace paramedic::record {
namespace {

// In the child: writes without end. `ready` is written to once the ring is there.
[[noreturn]] void write_for_ever(const RingOptions& options, int ready) {
  auto writer = RingWriter::create(options).value();
  define_tensor(*writer);
  if (::write(ready, "x", 1) != 1) ::_exit(1);
  // Records of several lengths, so that kills meet padding and wraps too. A full ring stops the
  // numbers, so that what is read has no gaps.
  for (int64_t step = 0;;) {
    if (append_numbered(*writer, step, static_cast<uint32_t>(step * 61 % 3000))) step++;
  }
}

TEST_F(RingTest, after_kill_9_at_a_random_moment_a_gap_free_prefix_is_read) {
  std::mt19937 random(7);
  int64_t total = 0;
  for (int round = 0; round < 50; round++) {
    // GIVEN a child that writes as fast as it can, and a reader that drains it meanwhile
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    const pid_t child = ::fork();
    if (child == 0) write_for_ever(options(), ready[1]);
    char byte = 0;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
    const std::string path = std::filesystem::directory_iterator(folder_)->path();
    auto reader = RingReader::open(path).value();
    int64_t next = 0;
    const auto drain = [&] {
      for (const int64_t step : read_steps(*reader)) ASSERT_EQ(step, next++);
      reader->acknowledge();
    };
    // WHEN it is killed after a random number of records
    const auto kill_after = static_cast<int64_t>(random() % 100);
    while (next < kill_after) drain();
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    // THEN all that it committed is there, in order, without a gap
    drain();
    EXPECT_GE(next, kill_after);
    EXPECT_FALSE(reader->state().closed);
    total += next;
    std::filesystem::remove(path);
  }
  EXPECT_GT(total, 50);
}

}  // namespace
}  // namespace paramedic::record
