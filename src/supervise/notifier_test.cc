// Whoever is told of a pause: a command here, and what is no program.

#include "supervise/notifier.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/test_folder.h"
#include "supervise/fd.h"

namespace paramedic::supervise {
namespace {

// Waits until `path` exists; the limit only ends a test that has failed.
std::string text_of(const std::string& path) {
  constexpr int kTriesMax = 2000;
  for (int i = 0; i < kTriesMax && !posix_file_system().exists(path); i++) ::poll(nullptr, 0, 5);
  return posix_file_system().read(path).value();
}

TEST(Notifier, a_command_finds_what_happened_on_its_standard_input) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/told";
  Notifier notifier("cat > '" + file + ".part' && mv '" + file + ".part' '" + file + "'");
  ASSERT_TRUE(notifier.tell({{"event", "paused"}, {"rank", 3}}).ok());
  EXPECT_EQ(text_of(file), "{\"event\":\"paused\",\"rank\":3}\n");
  notifier.reap();
}

TEST(Notifier, nobody_is_told_without_a_target) {
  Notifier notifier("");
  EXPECT_TRUE(notifier.tell({{"event", "paused"}}).ok());
}

TEST(Notifier, programs_that_do_not_end_are_not_started_without_bound) {
  const TemporaryFolder folder;
  const std::string pipe = folder.path() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  // Holds them all until it is closed, at the end of the test.
  const Fd gate(::open(pipe.c_str(), O_RDWR | O_CLOEXEC));
  Notifier notifier("exec cat '" + pipe + "' > /dev/null");
  int started = 0;
  while (started < 100 && notifier.tell(Json::object()).ok()) started++;
  EXPECT_EQ(started, 8);
}

}  // namespace
}  // namespace paramedic::supervise
