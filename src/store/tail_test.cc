#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "store/run_tail.h"
#include "store/test_support.h"

namespace paramedic::store {
namespace {

std::unique_ptr<RunWriter> make_run(const std::string& dir, const WriterOptions& options = {}) {
  return RunWriter::create(posix_file_system(), example_info(dir), options, real_clock()).value();
}

// What a tail tells of: all but statistics, histograms, tensors, findings and repairs.
TableTexts followed(TableTexts all) {
  TableTexts kept;
  for (const TableId table : {TableId::kScalars, TableId::kEvents, TableId::kModel,
                              TableId::kCollectives, TableId::kMetrics}) {
    if (!all[table].empty()) kept[table] = std::move(all[table]);
    std::sort(kept[table].begin(), kept[table].end());
  }
  return kept;
}

void read_new(RunTail& tail, RowSink& sink) {
  tail.look();
  while (tail.read(sink)) {
  }
}

TEST(RunTail, every_row_comes_once_while_the_writer_goes_on) {
  const TemporaryFolder folder;
  const std::string dir = folder.path() + "/run";
  MembersBook members;
  RunTail tail(dir, members);
  RowLog read;
  read_new(tail, read);
  RandomRows rows(1);
  RowLog written;
  WriterOptions options;
  options.segment_bytes_max = 20'000;  // several segments
  const auto writer = make_run(dir, options);
  for (int flush = 0; flush < 20; flush++) {
    rows.write(*writer, written, 100);
    ASSERT_TRUE(writer->flush().ok());
    read_new(tail, read);
    if (flush % 5 == 0) read_new(tail, read);
  }
  ASSERT_TRUE(writer->seal().ok());
  read_new(tail, read);
  EXPECT_EQ(followed(read.tables), followed(written.tables));
  EXPECT_TRUE(tail.damage().empty());
}

TEST(RunTail, rows_of_a_process_come_in_its_order_across_tables) {
  const TemporaryFolder folder;
  const std::string dir = folder.path() + "/run";
  const auto writer = make_run(dir);
  const std::string loss = "loss";
  std::vector<std::string> order;
  for (uint64_t i = 1; i <= 100; i++) {
    const Origin origin{.ring_id = 7, .sequence = i, .time_ns = static_cast<int64_t>(i)};
    if (i % 3 == 0) {
      writer->on_scalar({origin, &loss, 1.0});
    } else {
      writer->on_event({origin, "told", "{}"});
    }
  }
  ASSERT_TRUE(writer->flush().ok());
  class Order : public RowSink {
   public:
    void on_event(const EventRow& row) override { sequences.push_back(row.origin.sequence); }
    void on_scalar(const ScalarRow& row) override { sequences.push_back(row.origin.sequence); }
    std::vector<uint64_t> sequences;
  } read;
  MembersBook members;
  RunTail tail(dir, members);
  read_new(tail, read);
  EXPECT_EQ(read.sequences.size(), 100u);
  EXPECT_TRUE(std::is_sorted(read.sequences.begin(), read.sequences.end()));
}

TEST(RunTail, a_group_is_known_to_the_calls_that_follow_its_event) {
  const TemporaryFolder folder;
  const std::string dir = folder.path() + "/run";
  const auto writer = make_run(dir);
  GroupInfo group;
  group.name = "0";
  const Origin first{.ring_id = 7, .sequence = 1, .time_ns = 1};
  writer->on_event({first, "process_group", R"({"name": "0", "ranks": [0, 1, 2]})"});
  CollectiveRow call;
  call.origin = {.ring_id = 7, .sequence = 2, .time_ns = 2};
  call.group = &group;
  call.left_ns = 3;
  writer->on_collective(call);
  ASSERT_TRUE(writer->flush().ok());
  class Calls : public RowSink {
   public:
    void on_collective(const CollectiveRow& row) override { ranks = row.group->ranks.list(); }
    std::vector<int32_t> ranks;
  } read;
  MembersBook members;
  RunTail tail(dir, members);
  read_new(tail, read);
  EXPECT_EQ(read.ranks, (std::vector<int32_t>{0, 1, 2}));
}

TEST(RunTail, half_an_entry_waits_for_its_rest_and_a_damaged_batch_is_named) {
  const TemporaryFolder folder;
  const std::string dir = folder.path() + "/run";
  const auto writer = make_run(dir);
  for (uint64_t i = 1; i <= 3; i++) {
    writer->on_event({{.ring_id = 7, .sequence = i, .time_ns = 1}, "told", "{}"});
    ASSERT_TRUE(writer->flush().ok());
  }
  const std::string index = dir + "/events/rank-0-000000.idx";
  const std::string data = dir + "/events/rank-0-000000.arrows";
  const std::string whole = posix_file_system().read(index).value();
  ASSERT_TRUE(posix_file_system().truncate(index, whole.size() - 10).ok());
  MembersBook members;
  RunTail tail(dir, members);
  RowLog read;
  read_new(tail, read);
  EXPECT_EQ(read.all.size(), 2u);

  std::string bytes = posix_file_system().read(data).value();
  bytes[bytes.size() - 1] ^= 1;
  ASSERT_TRUE(posix_file_system().write_atomically(data, as_bytes(bytes)).ok());
  ASSERT_TRUE(posix_file_system().write_atomically(index, as_bytes(whole)).ok());
  read_new(tail, read);
  EXPECT_EQ(read.all.size(), 2u);
  ASSERT_EQ(tail.damage().size(), 1u);
  EXPECT_EQ(tail.damage()[0].file, data);
}

TEST(RunReader, reads_the_parts_of_a_run_as_one) {
  const TemporaryFolder folder;
  const std::string dir = folder.path() + "/run";
  RowLog written;
  uint64_t ring_id = 0;
  for (const char* part : {"", "/nodes/a", "/nodes/b"}) {
    const auto writer = make_run(dir + part);
    const EventRow row{{.ring_id = ++ring_id, .sequence = 1, .time_ns = 1}, "told", part};
    writer->on_event(row);
    written.on_event(row);
    ASSERT_TRUE(writer->seal().ok());
  }
  EXPECT_EQ(followed(read_all(dir)), followed(written.tables));
}

}  // namespace
}  // namespace paramedic::store
