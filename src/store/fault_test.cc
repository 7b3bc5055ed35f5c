// Writing while the disk fills, fails, or loses what was not synced, and while the process is
// killed: whatever happened, a reader gets what was flushed, and nothing that was not written.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <random>

#include "store/test_support.h"

namespace paramedic::store {
namespace {

bool is_part_of(std::vector<std::string> part, std::vector<std::string> whole) {
  std::sort(part.begin(), part.end());
  std::sort(whole.begin(), whole.end());
  return std::includes(whole.begin(), whole.end(), part.begin(), part.end());
}

void expect_part_of(const TableTexts& part, TableTexts whole) {
  for (const auto& [table, rows] : part) {
    EXPECT_TRUE(is_part_of(rows, whole[table])) << table_name(table);
  }
}

WriterOptions small_segments() {
  WriterOptions options;
  options.segment_bytes_max = 30'000;
  return options;
}

// Breaks `files` in a way chosen by `random`; returns whether it is healthy.
bool change_weather(FaultFileSystem& files, std::mt19937& random) {
  files.fail_writes_to("");
  files.set_space_left(UINT64_MAX);
  const char* parts[] = {".idx", ".arrows", "stats", "scalars", "findings/"};
  switch (random() % 4) {
    case 0:
      files.set_space_left(random() % 20'000);
      return false;
    case 1:
      files.fail_writes_to(parts[random() % std::size(parts)]);
      return false;
    default:
      return true;
  }
}

TEST(Faults, a_disk_that_fills_or_fails_loses_only_what_the_flush_said) {
  for (uint32_t seed = 0; seed < 15; seed++) {
    std::mt19937 random(seed);
    FaultFileSystem files;
    RandomRows rows(seed);
    RowLog written;
    RowLog kept;  // of the flushes that answered ok
    const auto writer =
        RunWriter::create(files, example_info("/run"), small_segments(), real_clock()).value();
    for (int flush = 0; flush < 20; flush++) {
      const bool healthy = change_weather(files, random);
      RowLog now;
      rows.write(*writer, now, 40);
      const Status status = writer->flush();
      EXPECT_TRUE(status.ok() || !healthy) << status.message();
      for (const auto& [table, texts] : now.tables) {
        written.tables[table].insert(written.tables[table].end(), texts.begin(), texts.end());
        if (!status.ok()) continue;
        kept.tables[table].insert(kept.tables[table].end(), texts.begin(), texts.end());
      }
    }
    const TemporaryFolder folder;
    copy_out(files, "/run", folder.path() + "/run");
    const auto reader = RunReader::open(folder.path() + "/run").value();
    const TableTexts read = read_all(*reader);
    expect_part_of(kept.tables, read);
    expect_part_of(read, written.tables);
    EXPECT_TRUE(reader->damage().empty()) << seed << " " << reader->damage()[0].what;
    EXPECT_EQ(count_rows(read) + writer->lost_rows(), count_rows(written.tables)) << seed;
  }
}

TEST(Faults, a_full_disk_is_told_and_writing_goes_on_when_there_is_room) {
  FaultFileSystem files;
  RandomRows rows(1);
  RowLog written;
  const auto writer =
      RunWriter::create(files, example_info("/run"), WriterOptions(), real_clock()).value();
  files.set_space_left(0);
  rows.write(*writer, written, 20);
  const Status status = writer->flush();
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_NE(status.message().find("No space left"), std::string::npos);
  EXPECT_EQ(writer->lost_rows(), count_rows(written.tables));
  files.set_space_left(UINT64_MAX);
  rows.write(*writer, written, 20);
  EXPECT_TRUE(writer->flush().ok());
}

TEST(Faults, a_loss_of_power_keeps_sealed_segments_and_never_invents_rows) {
  for (uint32_t seed = 0; seed < 10; seed++) {
    FaultFileSystem files;
    RandomRows rows(seed);
    RowLog written;
    const auto writer =
        RunWriter::create(files, example_info("/run"), WriterOptions(), real_clock()).value();
    rows.write(*writer, written, 50);
    ASSERT_TRUE(writer->seal().ok());
    const TableTexts sealed = written.tables;
    for (int flush = 0; flush < 3; flush++) {
      rows.write(*writer, written, 50);
      ASSERT_TRUE(writer->flush().ok());
    }
    // Some of each file's tail may have reached the disk; of data and index not the same part.
    files.lose_unsynced(seed * 97);
    const auto check = [&](const TableTexts& all) {
      const TemporaryFolder folder;
      copy_out(files, "/run", folder.path() + "/run");
      const TableTexts read = read_all(folder.path() + "/run");
      expect_part_of(sealed, read);
      expect_part_of(read, all);
      return read;
    };
    const TableTexts before = check(written.tables);
    // Resuming cuts what is torn; whatever could be read still can, and new rows come behind it.
    const auto resumed = RunWriter::resume(files, "/run", WriterOptions(), real_clock()).value();
    rows.write(*resumed, written, 50);
    ASSERT_TRUE(resumed->seal().ok());
    expect_part_of(before, check(written.tables));
  }
}

// Writes and flushes until it is killed; tells each flush that answered ok by one byte.
[[noreturn]] void write_until_killed(const std::string& dir, uint32_t seed, int pipe) {
  RandomRows rows(seed);
  RowLog log;
  const auto writer =
      RunWriter::create(posix_file_system(), example_info(dir), small_segments(), real_clock());
  constexpr int kFlushesMax = 10'000;
  for (int flush = 0; writer.ok() && flush < kFlushesMax; flush++) {
    rows.write(**writer, log, 20);
    if (!(*writer)->flush().ok() || ::write(pipe, "x", 1) != 1) break;
  }
  ::_exit(1);
}

// Returns how many flushes had answered ok when the writer died.
int kill_a_writer(const std::string& dir, uint32_t seed) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) write_until_killed(dir, seed, ends[1]);
  ::close(ends[1]);
  int flushes = 0;
  char byte = 0;
  // The moment: after so many flushes, somewhere in the next one.
  const int wanted = 1 + static_cast<int>(seed % 7);
  while (flushes < wanted && ::read(ends[0], &byte, 1) == 1) flushes++;
  for (volatile uint32_t spin = 0; spin < (seed * 7919) % 100'000;) spin = spin + 1;
  ::kill(child, SIGKILL);
  while (::read(ends[0], &byte, 1) == 1) flushes++;
  ::close(ends[0]);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status)) << "the writer failed before it was killed";
  return flushes;
}

TEST(Faults, a_writer_killed_at_any_moment_has_stored_every_flush_that_answered) {
  for (uint32_t seed = 0; seed < 30; seed++) {
    const TemporaryFolder folder;
    const std::string dir = folder.path() + "/run";
    const int flushes = kill_a_writer(dir, seed);
    // The same rows again, by the same seed.
    FaultFileSystem files;
    const auto twin =
        RunWriter::create(files, example_info("/twin"), WriterOptions(), real_clock()).value();
    RandomRows rows(seed);
    RowLog written;
    for (int i = 0; i < flushes; i++) rows.write(*twin, written, 20);
    const TableTexts flushed = written.tables;
    rows.write(*twin, written, 20);
    const TableTexts read = read_all(dir);
    expect_part_of(flushed, read);
    expect_part_of(read, written.tables);
    const auto resumed =
        RunWriter::resume(posix_file_system(), dir, WriterOptions(), real_clock()).value();
    const auto reader = RunReader::open(dir).value();
    EXPECT_EQ(read_all(*reader), read) << "cutting the torn tail changes nothing that is read";
  }
}

}  // namespace
}  // namespace paramedic::store
