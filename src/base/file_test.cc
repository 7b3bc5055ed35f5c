#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fault_file.h"
#include "base/test_folder.h"

namespace paramedic {
namespace {

std::string text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class PosixFiles : public testing::Test {
 protected:
  const TemporaryFolder temporary_;
  const std::string& folder_ = temporary_.path();
  FileSystem& files_ = posix_file_system();
};

TEST_F(PosixFiles, appended_bytes_are_read_back) {
  auto file = files_.create(folder_ + "/a").value();
  EXPECT_TRUE(file->append(as_bytes("one ")).ok());
  EXPECT_TRUE(file->append(as_bytes("two")).ok());
  EXPECT_TRUE(file->close().ok());
  EXPECT_EQ(files_.read(folder_ + "/a").value(), "one two");
  EXPECT_EQ(text_of(MappedFile::open(folder_ + "/a").value().bytes()), "one two");
}

TEST_F(PosixFiles, create_never_overwrites) {
  EXPECT_TRUE(files_.create(folder_ + "/a").ok());
  EXPECT_EQ(files_.create(folder_ + "/a").status().code(), StatusCode::kIoError);
}

TEST_F(PosixFiles, folders_and_files_are_private) {
  EXPECT_TRUE(files_.make_folders(folder_ + "/x/y").ok());
  EXPECT_TRUE(files_.create(folder_ + "/x/y/f").ok());
  struct stat info{};
  ASSERT_EQ(::stat((folder_ + "/x/y").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ASSERT_EQ(::stat((folder_ + "/x/y/f").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(PosixFiles, an_atomic_write_replaces_and_leaves_nothing_beside) {
  EXPECT_TRUE(files_.write_atomically(folder_ + "/j", as_bytes("1")).ok());
  EXPECT_TRUE(files_.write_atomically(folder_ + "/j", as_bytes("2")).ok());
  EXPECT_EQ(files_.read(folder_ + "/j").value(), "2");
  EXPECT_EQ(files_.list(folder_).value(), std::vector<std::string>{"j"});
}

TEST_F(PosixFiles, missing_files_are_not_found_with_their_path) {
  const Status status = files_.read(folder_ + "/none").status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_NE(status.message().find(folder_ + "/none"), std::string::npos);
  EXPECT_EQ(MappedFile::open(folder_ + "/none").status().code(), StatusCode::kNotFound);
}

TEST(FaultFiles, a_full_disk_cuts_the_write_that_crosses_the_limit) {
  FaultFileSystem files;
  auto file = files.create("/a").value();
  files.set_space_left(5);
  EXPECT_TRUE(file->append(as_bytes("abc")).ok());
  EXPECT_EQ(file->append(as_bytes("defg")).message(), "cannot write /a: No space left on device");
  EXPECT_EQ(files.read("/a").value(), "abcde");
}

TEST(FaultFiles, a_loss_of_power_forgets_what_was_not_synced) {
  FaultFileSystem files;
  auto file = files.create("/a").value();
  EXPECT_TRUE(file->append(as_bytes("safe")).ok());
  EXPECT_TRUE(file->sync().ok());
  EXPECT_TRUE(file->append(as_bytes("lost")).ok());
  files.lose_unsynced(2);
  EXPECT_EQ(files.read("/a").value(), "safelo");
}

TEST(FaultFiles, writes_to_a_failing_path_are_io_errors_and_others_go_on) {
  FaultFileSystem files;
  auto bad = files.create("/stats/a").value();
  auto good = files.create("/scalars/a").value();
  files.fail_writes_to("stats");
  EXPECT_EQ(bad->append(as_bytes("x")).code(), StatusCode::kIoError);
  EXPECT_TRUE(good->append(as_bytes("x")).ok());
}

TEST(VirtualClock, moves_only_when_told) {
  VirtualClock clock(7);
  EXPECT_EQ(clock.monotonic_ns(), 7);
  clock.advance(5);
  EXPECT_EQ(clock.wall_ns(), 12);
}

}  // namespace
}  // namespace paramedic
