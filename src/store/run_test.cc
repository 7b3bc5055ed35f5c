#include "store/run.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "store/test_support.h"

namespace paramedic::store {
namespace {

// Tables are stored by rank, so a table's rows come back in another order than they were written.
void expect_same_rows(TableTexts written, TableTexts read) {
  for (auto* tables : {&written, &read}) {
    for (auto& [table, rows] : *tables) std::sort(rows.begin(), rows.end());
  }
  for (size_t table = 0; table < kTableCount; table++) {
    const auto id = static_cast<TableId>(table);
    EXPECT_EQ(written[id], read[id]) << table_name(id);
  }
}

std::unique_ptr<RunWriter> make_run(const std::string& dir, const WriterOptions& options = {},
                                    const Clock& clock = real_clock()) {
  return RunWriter::create(posix_file_system(), example_info(dir), options, clock).value();
}

size_t segments_in(const std::string& folder) {
  size_t count = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    count += file.path().extension() == ".arrows" ? 1 : 0;
  }
  return count;
}

TEST(Run, rows_of_every_table_come_back_exactly) {
  for (uint32_t seed = 0; seed < 10; seed++) {
    const TemporaryFolder folder;
    const std::string dir = folder.path() + "/run";
    RandomRows rows(seed);
    RowLog written;
    const auto writer = make_run(dir);
    for (int flush = 0; flush < 5; flush++) {
      rows.write(*writer, written, 100);
      ASSERT_TRUE(writer->flush().ok());
    }
    ASSERT_TRUE(writer->seal().ok());
    const auto reader = RunReader::open(dir).value();
    expect_same_rows(written.tables, read_all(*reader));
    EXPECT_TRUE(reader->damage().empty());
    EXPECT_EQ(writer->lost_rows(), 0u);
  }
}

TEST(Run, a_reader_sees_what_was_flushed_while_the_writer_goes_on) {
  const TemporaryFolder folder;
  const std::string dir = folder.path() + "/run";
  RandomRows rows(1);
  RowLog written;
  const auto writer = make_run(dir);
  const auto reader = RunReader::open(dir).value();
  for (int flush = 0; flush < 3; flush++) {
    rows.write(*writer, written, 50);
    ASSERT_TRUE(writer->flush().ok());
    expect_same_rows(written.tables, read_all(*reader));
  }
  EXPECT_TRUE(reader->damage().empty());
}

TEST(Run, a_replay_merges_the_tables_into_the_order_of_each_ring) {
  const TemporaryFolder folder;
  const std::string dir = folder.path() + "/run";
  RandomRows rows(2);
  RowLog written;
  WriterOptions options;
  options.segment_bytes_max = 20'000;  // several segments
  const auto writer = make_run(dir, options);
  for (int flush = 0; flush < 20; flush++) {
    rows.write(*writer, written, 100);
    ASSERT_TRUE(writer->flush().ok());
  }
  RowLog replayed;
  ASSERT_TRUE(RunReader::open(dir).value()->replay(replayed).ok());
  // The ring's number stands in each row, before the sequence.
  const auto ring_of = [](const std::string& row) {
    const size_t at = row.find("ring_id=");
    return row.substr(at, row.find(' ', at) - at);
  };
  std::map<std::string, std::vector<std::string>> expected;
  for (const std::string& row : written.all) {
    if (row.starts_with("tensors:") || row.find("ring_id=") == std::string::npos) continue;
    expected[ring_of(row)].push_back(row);
  }
  std::map<std::string, std::vector<std::string>> actual;
  std::vector<std::string> rings;
  for (const std::string& row : replayed.all) {
    const std::string ring = ring_of(row);
    if (rings.empty() || rings.back() != ring) rings.push_back(ring);
    actual[ring].push_back(row);
  }
  EXPECT_EQ(actual, expected);
  EXPECT_EQ(rings.size(), expected.size()) << "rings follow one another";
}

TEST(Run, segments_are_sealed_by_size) {
  const TemporaryFolder folder;
  const std::string dir = folder.path() + "/run";
  RandomRows rows(3);
  RowLog written;
  WriterOptions options;
  options.segment_bytes_max = 10'000;
  const auto writer = make_run(dir, options);
  for (int flush = 0; flush < 20; flush++) {
    rows.write(*writer, written, 100);
    ASSERT_TRUE(writer->flush().ok());
  }
  EXPECT_GT(segments_in(dir + "/stats"), 4u);
  expect_same_rows(written.tables, read_all(dir));
}

TEST(Run, segments_are_sealed_by_age) {
  const TemporaryFolder folder;
  const std::string dir = folder.path() + "/run";
  VirtualClock clock;
  WriterOptions options;
  options.segment_age_ns_max = 10;
  const auto writer = make_run(dir, options, clock);
  for (int flush = 0; flush < 3; flush++) {
    writer->on_finding({1, 0, "k", "{}"});
    ASSERT_TRUE(writer->flush().ok());
    clock.advance(10);
  }
  EXPECT_EQ(segments_in(dir + "/findings"), 2u) << "the second flush sealed the first segment";
}

TEST(Run, the_newest_finding_of_a_key_counts_in_order_of_first_appearance) {
  const TemporaryFolder folder;
  const std::string dir = folder.path() + "/run";
  const auto writer = make_run(dir);
  for (const FindingRow& row :
       {FindingRow{1, 0, "a", "1"}, FindingRow{2, 0, "b", "2"}, FindingRow{3, 0, "a", "3"}}) {
    writer->on_finding(row);
    ASSERT_TRUE(writer->flush().ok());
  }
  const auto findings = RunReader::open(dir).value()->read_findings().value();
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].json, "3");
  EXPECT_EQ(findings[1].json, "2");
}

TEST(Run, a_tensor_is_one_object_for_each_process) {
  const TemporaryFolder folder;
  const std::string dir = folder.path() + "/run";
  const auto writer = make_run(dir);
  const TensorInfo weight{"w", Kind::kWeight, stats::DType::kFloat32, {2, 3}};
  const TensorInfo gradient{"w", Kind::kGradient, stats::DType::kFloat32, {2, 3}};
  for (uint64_t sequence = 0; sequence < 4; sequence++) {
    StatsRow row;
    row.origin.ring_id = 1 + sequence % 2;
    row.origin.sequence = sequence;
    for (const TensorInfo* tensor : {&weight, &gradient}) {
      row.tensor = tensor;
      writer->on_stats(row);
    }
  }
  ASSERT_TRUE(writer->flush().ok());
  const auto reader = RunReader::open(dir).value();
  std::set<const TensorInfo*> seen;
  ASSERT_TRUE(
      reader->read_stats([&](const StatsRow& row) { return seen.insert(row.tensor), true; }).ok());
  EXPECT_EQ(seen.size(), 4u) << "two processes with two tensors";
  const TensorInfo* first = *seen.begin();
  EXPECT_EQ(first->name, "w");
  EXPECT_EQ(first->sizes, (std::vector<int64_t>{2, 3}));
}

TEST(Run, reading_stops_when_asked) {
  const TemporaryFolder folder;
  const std::string dir = folder.path() + "/run";
  const auto writer = make_run(dir);
  for (int i = 0; i < 10; i++) writer->on_metric({i, 0, "m", 0});
  ASSERT_TRUE(writer->flush().ok());
  int rows = 0;
  ASSERT_TRUE(RunReader::open(dir)
                  .value()
                  ->read_metrics([&](const MetricRow&) { return ++rows < 3; })
                  .ok());
  EXPECT_EQ(rows, 3);
}

TEST(Run, a_name_that_is_taken_is_a_usage_error_and_changes_nothing) {
  const TemporaryFolder folder;
  const std::string dir = folder.path() + "/run";
  make_run(dir);
  const std::string before = read_file(dir + "/run.json");
  const auto again =
      RunWriter::create(posix_file_system(), example_info(dir), {}, real_clock()).status();
  EXPECT_EQ(again.code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(again.hint().empty());
  EXPECT_EQ(read_file(dir + "/run.json"), before);
}

TEST(Run, folders_are_private) {
  const TemporaryFolder folder;
  const std::string dir = folder.path() + "/run";
  const auto writer = make_run(dir);
  writer->on_metric({0, 0, "m", 0});
  ASSERT_TRUE(writer->flush().ok());
  for (const std::string& path : {dir, dir + "/metrics"}) {
    struct stat info{};
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u) << path;
  }
}

TEST(Run, a_resumed_run_stores_no_row_twice_and_changes_no_sealed_segment) {
  const TemporaryFolder folder;
  const std::string dir = folder.path() + "/run";
  RowLog written;
  RandomRows first(4);
  {
    const auto writer = make_run(dir);
    first.write(*writer, written, 300);
    ASSERT_TRUE(writer->seal().ok());
  }
  const std::string sealed = read_file(dir + "/stats/rank-0-000000.arrows");
  // WHEN the same rows and some newer ones are given again
  const auto writer =
      RunWriter::resume(posix_file_system(), dir, WriterOptions(), real_clock()).value();
  EXPECT_TRUE(writer->stored_sequences().empty());
  RandomRows second(4);
  RowLog repeated;
  second.write(*writer, repeated, 300);
  second.write(*writer, written, 100);
  ASSERT_TRUE(writer->seal().ok());
  // THEN tables from rings have each row once; the others were written by the agent, not a ring
  TableTexts read = read_all(dir);
  for (const TableId table : {TableId::kMetrics, TableId::kFindings, TableId::kRepairs}) {
    written.tables.erase(table);
    read.erase(table);
  }
  expect_same_rows(written.tables, read);
  EXPECT_EQ(read_file(dir + "/stats/rank-0-000000.arrows"), sealed);
  EXPECT_FALSE(writer->stored_sequences().empty());
}

TEST(Run, a_size_limit_removes_raw_tensors_first_and_findings_never) {
  const TemporaryFolder folder;
  const std::string dir = folder.path() + "/run";
  WriterOptions options;
  options.disk_bytes_max = 1'000'000;
  const auto writer = make_run(dir, options);
  const TensorInfo info{"w", Kind::kWeight, stats::DType::kFloat32, {10}};
  for (uint64_t sequence = 0; sequence < 200; sequence++) {
    TensorPieceRow piece{{}, &info, 10'000, 0, std::vector<std::byte>(10'000)};
    piece.origin.sequence = 2 * sequence;
    writer->on_tensor_piece(piece);
    StatsRow row;
    row.tensor = &info;
    row.origin.sequence = 2 * sequence + 1;
    writer->on_stats(row);
    writer->on_finding({0, 0, std::to_string(sequence), "{}"});
    ASSERT_TRUE(writer->flush().ok());
  }
  TableTexts read = read_all(dir);
  EXPECT_EQ(read[TableId::kStats].size(), 200u);
  EXPECT_EQ(read[TableId::kFindings].size(), 200u);
  EXPECT_LT(read[TableId::kTensors].size(), 100u);
  EXPECT_GT(read[TableId::kTensors].size(), 10u);
  ASSERT_EQ(writer->notes().size(), 1u);
  EXPECT_NE(writer->notes()[0].find("tensors"), std::string::npos);
}

TEST(Run, statistics_go_last_when_nothing_else_can) {
  const TemporaryFolder folder;
  const std::string dir = folder.path() + "/run";
  WriterOptions options;
  options.disk_bytes_max = 300'000;
  const auto writer = make_run(dir, options);
  const TensorInfo info{"w", Kind::kWeight, stats::DType::kFloat32, {10}};
  for (uint64_t sequence = 0; sequence < 3000; sequence++) {
    StatsRow row;
    row.tensor = &info;
    row.origin.sequence = sequence;
    writer->on_stats(row);
    if (sequence % 100 == 99) {
      ASSERT_TRUE(writer->flush().ok());
    }
  }
  uint64_t bytes = 0;
  for (const auto& file : std::filesystem::directory_iterator(dir + "/stats")) {
    bytes += file.file_size();
  }
  EXPECT_LE(bytes, options.disk_bytes_max);
  uint64_t last = 0;
  ASSERT_TRUE(
      RunReader::open(dir)
          .value()
          ->read_stats([&](const StatsRow& row) { return last = row.origin.sequence, true; })
          .ok());
  EXPECT_EQ(last, 2999u) << "the oldest go, the newest stay";
}

TEST(Run, any_arrow_reader_opens_a_segment) {
  const std::string python = PARAMEDIC_SOURCE_DIR "/.venv/bin/python";
  if (!posix_file_system().exists(python)) GTEST_SKIP() << "no " << python;
  const TemporaryFolder folder;
  const std::string dir = folder.path() + "/run";
  const auto writer = make_run(dir);
  RandomRows rows(5);
  RowLog written;
  for (int flush = 0; flush < 3; flush++) {
    rows.write(*writer, written, 200);
    ASSERT_TRUE(writer->flush().ok());
  }
  const std::string script =
      "import glob, sys, pyarrow as pa\n"
      "for table in sys.argv[2:]:\n"
      "    n = 0\n"
      "    for path in glob.glob(f'{sys.argv[1]}/{table}/*.arrows'):\n"
      "        t = pa.ipc.open_stream(path).read_all()\n"
      "        t.validate(full=True)\n"
      "        n += t.num_rows\n"
      "    print(table, n)\n";
  write_file(folder.path() + "/read.py", script);
  std::string command = python + " " + folder.path() + "/read.py " + dir;
  std::string expected;
  for (auto& [table, its] : written.tables) {
    command += std::string(" ") + table_name(table);
    expected += fmt::format("{} {}\n", table_name(table), its.size());
  }
  // NOLINTNEXTLINE(bugprone-command-processor): a test, with a command of its own
  ASSERT_EQ(std::system((command + " > " + folder.path() + "/out").c_str()), 0);
  EXPECT_EQ(read_file(folder.path() + "/out"), expected);
}

}  // namespace
}  // namespace paramedic::store
