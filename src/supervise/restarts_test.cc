// Restarts without a job: pages as a process of the job would leave them.
#include "supervise/restarts.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "base/file.h"
#include "supervise/job_harness.h"

namespace paramedic::supervise {
namespace {

constexpr pid_t kOwner = 4'000'000;  // above the largest number that Linux gives

// A process that does nothing until it is killed.
class Standby {
 public:
  Standby() : pid_(::fork()) {
    if (pid_ != 0) return;
    while (true) ::pause();
  }
  Standby(const Standby&) = delete;
  Standby& operator=(const Standby&) = delete;
  ~Standby() { end(); }

  [[nodiscard]] pid_t pid() const { return pid_; }
  void end() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_;
};

// The bytes of docs/formats/snapshot.md, written without the code that is tested.
class Page {
 public:
  explicit Page(const std::string& folder)
      : path_(folder + "/paramedic-run-" + std::to_string(kOwner) + ".snapshot") {
    std::memcpy(bytes_.data(), "PMSNAP1", 8);
    put<uint32_t>(8, 1);
  }

  template <typename T>
  void put(size_t at, T value) {
    std::memcpy(bytes_.data() + at, &value, sizeof value);
  }
  void put_snapshot(uint64_t generation, int64_t step, pid_t pid) {
    const size_t slot = 64 + 64 * (generation % 2);
    put<uint64_t>(slot, generation);
    put<int64_t>(slot + 8, step);
    put<uint64_t>(slot + 16, 100);
    put<uint64_t>(slot + 24, UINT64_MAX);
    put<uint32_t>(slot + 48, static_cast<uint32_t>(pid));
    put<uint32_t>(slot + 52, crc32c(bytes_.data() + slot, 52));
    put<uint64_t>(24, generation);
  }
  void put_reason(const std::string& text) {
    std::memcpy(bytes_.data() + 512, text.data(), text.size());
  }
  void write() const { write_file(path_, std::string(bytes_.data(), bytes_.size())); }
  [[nodiscard]] uint64_t order() const {
    uint64_t order = 0;
    std::memcpy(&order, read_file(path_).data() + 32, sizeof order);
    return order;
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::vector<char> bytes_ = std::vector<char>(64 * 1024);
};

RestartOptions in(const TemporaryFolder& folder) { return {3, folder.path(), "run"}; }

TEST(restarts, newest_snapshot_is_ordered_to_go_on_and_its_answer_ends_the_restart) {
  const TemporaryFolder folder;
  Standby standby;
  Page page(folder.path());
  page.put_snapshot(6, 5, 1);
  page.put_snapshot(7, 812, standby.pid());
  page.write();
  Restarts restarts(in(folder));
  ASSERT_TRUE(restarts.begin(kOwner, SIGSEGV)) << restarts.reason();
  EXPECT_EQ(restarts.snapshot().pid, standby.pid());
  EXPECT_EQ(restarts.snapshot().step, 812);
  EXPECT_EQ(restarts.snapshot().stdout_position, 100U);
  EXPECT_FALSE(restarts.is_ordered());
  restarts.order();
  EXPECT_EQ(page.order(), 7U);
  EXPECT_FALSE(restarts.is_answered());
  page.put<uint64_t>(40, 7);
  page.write();
  EXPECT_TRUE(restarts.is_answered());
  EXPECT_FALSE(restarts.is_under_way());
  EXPECT_EQ(restarts.note(), "the job died of SIGSEGV; it goes on from step 812 (restart 1 of 3)");
}

TEST(restarts, who_ends_the_job_on_purpose_is_obeyed) {
  const TemporaryFolder folder;
  Standby standby;
  Page page(folder.path());
  page.put_snapshot(1, 1, standby.pid());
  page.write();
  Restarts restarts(in(folder));
  for (const int status : {SIGTERM, SIGINT, 1 << 8, 0}) {
    EXPECT_FALSE(restarts.begin(kOwner, status));
    EXPECT_EQ(restarts.reason(), "");
  }
}

TEST(restarts, limit_ends_them_with_a_reason) {
  const TemporaryFolder folder;
  Standby standby;
  Page page(folder.path());
  page.put_snapshot(1, 1, standby.pid());
  page.put<uint64_t>(40, 1);
  page.write();
  Restarts restarts(in(folder));
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(restarts.begin(kOwner, SIGKILL)) << restarts.reason();
    restarts.order();
    ASSERT_TRUE(restarts.is_answered());
  }
  EXPECT_FALSE(restarts.begin(kOwner, SIGKILL));
  EXPECT_EQ(restarts.reason(),
            "the job died of SIGKILL and does not go on: it has gone on 3 times already");
}

TEST(restarts, snapshot_that_cannot_go_on_is_refused_with_its_reason) {
  const TemporaryFolder folder;
  Standby standby;
  Restarts restarts(in(folder));
  Page page(folder.path());
  EXPECT_FALSE(restarts.begin(kOwner, SIGKILL));
  EXPECT_EQ(restarts.reason(), "");  // no page: no training that we know of

  page.write();
  EXPECT_FALSE(restarts.begin(kOwner, SIGKILL));
  EXPECT_NE(restarts.reason().find("no snapshot yet"), std::string::npos);

  page.put_reason("a process that uses CUDA cannot be forked");
  page.write();
  EXPECT_FALSE(restarts.begin(kOwner, SIGKILL));
  EXPECT_NE(restarts.reason().find("uses CUDA"), std::string::npos);

  page.put_snapshot(1, 3, standby.pid());
  page.put<uint64_t>(216, 1);
  page.write();
  EXPECT_FALSE(restarts.begin(kOwner, SIGKILL));
  EXPECT_NE(restarts.reason().find("cannot be repeated"), std::string::npos);

  page.put<uint64_t>(216, 0);
  page.write();
  standby.end();
  EXPECT_FALSE(restarts.begin(kOwner, SIGKILL));
  EXPECT_NE(restarts.reason().find("is gone"), std::string::npos);
}

TEST(restarts, damaged_page_is_no_snapshot) {
  const TemporaryFolder folder;
  Standby standby;
  Page page(folder.path());
  page.put_snapshot(2, 1, standby.pid());
  page.put<int64_t>(64 + 8, 999);  // the checksum does not cover this step
  page.write();
  Restarts restarts(in(folder));
  EXPECT_FALSE(restarts.begin(kOwner, SIGKILL));
  write_file(page.path(), "short");
  EXPECT_FALSE(restarts.begin(kOwner, SIGKILL));
  write_file(page.path(), std::string(64 * 1024, 'x'));
  EXPECT_FALSE(restarts.begin(kOwner, SIGKILL));
}

TEST(restarts, end_of_the_run_ends_what_stands_by_and_removes_its_page) {
  const TemporaryFolder folder;
  Standby standby;
  Page page(folder.path());
  page.put_snapshot(1, 1, standby.pid());
  page.write();
  {
    const Restarts restarts(in(folder));
  }
  EXPECT_FALSE(posix_file_system().exists(page.path()));
  int status = 0;
  EXPECT_EQ(::waitpid(standby.pid(), &status, 0), standby.pid());
  EXPECT_TRUE(WIFSIGNALED(status));
}

}  // namespace
}  // namespace paramedic::supervise
