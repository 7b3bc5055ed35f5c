#include "diagnose/growing.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string_view>
#include <thread>

#include "base/test_folder.h"

namespace paramedic::diagnose {
namespace {

// A log that somebody has open.
class Writer {
 public:
  explicit Writer(const std::string& path)
      : fd_(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {}
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() { close(fd_); }
  void write(std::string_view text) const {
    PARAMEDIC_CHECK(::write(fd_, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }

 private:
  int fd_;
};

constexpr GrowingOptions kQuick{.interrupt_fd = -1, .poll_ms = 1, .settle_ms = 20};

TEST(Growing, the_verdict_comes_when_the_writer_is_done) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/job.log";
  auto writer = std::make_unique<Writer>(path);
  writer->write("step 1 loss 0.5\n");
  std::thread job([&] {
    writer->write("step 2 loss 0.4\nTraining finished.\n");
    writer.reset();
  });
  const auto diagnosis = diagnose_growing(path, kQuick);
  job.join();
  EXPECT_EQ(name(diagnosis->verdict.category), "no_failure");
  EXPECT_EQ(diagnosis->timeline.last_step, 2);
}

TEST(Growing, the_verdict_comes_when_a_cause_is_followed_by_nothing) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/job.log";
  const Writer writer(path);
  writer.write(
      "step 1 loss 0.5\nTraceback (most recent call last):\n  File \"train.py\", line 4, "
      "in main\n    x = d['beam']\nKeyError: 'beam'\n");
  const auto diagnosis = diagnose_growing(path, kQuick);
  EXPECT_EQ(name(diagnosis->verdict.category), "key_not_found");
}

TEST(Growing, an_interrupt_judges_what_there_is) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/job.log";
  const Writer writer(path);
  writer.write("step 1 loss 0.5\n");
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  GrowingOptions options = kQuick;
  options.interrupt_fd = ends[0];
  EXPECT_EQ(name(diagnose_growing(path, options)->verdict.category), "unknown");
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace paramedic::diagnose
