// What a reader makes of damaged segments: every row it gives was written, what is lost is named,
// and no more is lost than what was damaged.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "store/segment_format.h"
#include "store/test_support.h"

namespace paramedic::store {
namespace {

constexpr int kFlushes = 3;
constexpr size_t kRowsInFlush = 2;

// A run with one small segment of three batches.
class SmallRun {
 public:
  explicit SmallRun(const std::string& status = "finished") {
    RunInfo info = example_info(dir());
    info.status = status;
    const auto writer =
        RunWriter::create(posix_file_system(), info, WriterOptions(), real_clock()).value();
    for (int flush = 0; flush < kFlushes; flush++) {
      write_rows(*writer, flush);
      data_ends.push_back(std::filesystem::file_size(data_path()));
      index_ends.push_back(std::filesystem::file_size(index_path()));
    }
    data = read_file(data_path());
    index = read_file(index_path());
  }

  void write_rows(RunWriter& writer, int flush) {
    for (size_t i = 0; i < kRowsInFlush; i++) {
      EventRow row;
      row.origin.ring_id = 7;
      row.origin.sequence = static_cast<uint64_t>(flush) * kRowsInFlush + i;
      row.origin.step = flush;
      row.kind = "fit_started";
      row.json = fmt::format(R"({{"flush": {}, "row": {}}})", flush, i);
      writer.on_event(row);
      log.on_event(row);
    }
    EXPECT_TRUE(writer.flush().ok());
  }

  [[nodiscard]] std::string dir() const { return folder_.path() + "/run"; }
  [[nodiscard]] std::string stem() const { return dir() + "/events/rank-0-000000"; }
  [[nodiscard]] std::string data_path() const { return stem() + ".arrows"; }
  [[nodiscard]] std::string index_path() const { return stem() + ".idx"; }

  RowLog log;
  std::vector<uint64_t> data_ends;  // after each flush
  std::vector<uint64_t> index_ends;
  std::string data;
  std::string index;

 private:
  TemporaryFolder folder_;
};

struct ReadBack {
  std::vector<std::string> rows;
  std::vector<Damage> damage;
};

ReadBack read_events(const std::string& dir) {
  const auto reader = RunReader::open(dir).value();
  RowLog log;
  EXPECT_TRUE(
      reader->read_events([&](const EventRow& row) { return log.on_event(row), true; }).ok());
  RowLog replayed;
  EXPECT_TRUE(reader->replay(replayed).ok());
  EXPECT_EQ(replayed.all, log.all) << "replay and table give the same rows";
  return {log.all, reader->damage()};
}

std::vector<std::string> first_batches(const SmallRun& run, size_t batches) {
  return {run.log.all.begin(),
          run.log.all.begin() + static_cast<ptrdiff_t>(batches * kRowsInFlush)};
}

TEST(Damage, data_torn_at_any_byte_of_the_last_batch_loses_that_batch_alone) {
  SmallRun run;
  for (uint64_t cut = run.data_ends[1]; cut < run.data_ends[2]; cut++) {
    write_file(run.data_path(), run.data.substr(0, cut));
    const ReadBack read = read_events(run.dir());
    EXPECT_EQ(read.rows, first_batches(run, 2)) << cut;
    ASSERT_EQ(read.damage.size(), 1u) << cut;
    EXPECT_EQ(read.damage[0].file, run.data_path());
    EXPECT_EQ(read.damage[0].offset, run.data_ends[1]);
  }
}

TEST(Damage, an_index_torn_at_any_byte_of_the_last_entry_loses_that_batch_alone) {
  SmallRun run;
  for (uint64_t cut = run.index_ends[1]; cut < run.index_ends[2]; cut++) {
    write_file(run.index_path(), run.index.substr(0, cut));
    const ReadBack read = read_events(run.dir());
    EXPECT_EQ(read.rows, first_batches(run, 2)) << cut;
    ASSERT_EQ(read.damage.size(), 1u) << cut;
    EXPECT_NE(read.damage[0].what.find("torn tail"), std::string::npos);
  }
}

TEST(Damage, a_torn_tail_of_a_run_that_still_runs_is_not_damage) {
  SmallRun run("running");
  write_file(run.index_path(), run.index.substr(0, run.index_ends[2] - 1));
  const ReadBack read = read_events(run.dir());
  EXPECT_EQ(read.rows, first_batches(run, 2));
  EXPECT_TRUE(read.damage.empty());
}

TEST(Damage, resuming_cuts_a_torn_tail_and_goes_on_in_a_new_segment) {
  SmallRun run;
  const auto check = [&](const std::string& data, const std::string& index) {
    std::filesystem::remove(run.dir() + "/events/rank-0-000001.arrows");
    std::filesystem::remove(run.dir() + "/events/rank-0-000001.idx");
    write_file(run.data_path(), data);
    write_file(run.index_path(), index);
    const auto writer =
        RunWriter::resume(posix_file_system(), run.dir(), WriterOptions(), real_clock()).value();
    ASSERT_EQ(writer->notes().size(), 1u);
    EXPECT_EQ(read_file(run.data_path()), run.data.substr(0, run.data_ends[1]));
    EXPECT_EQ(read_file(run.index_path()), run.index.substr(0, run.index_ends[1]));
    // The ring gives the last rows again: exactly those that were cut are stored.
    const std::vector<std::string> all = run.log.all;
    for (int flush = 0; flush < kFlushes; flush++) run.write_rows(*writer, flush);
    run.log.all = all;
    const ReadBack read = read_events(run.dir());
    EXPECT_EQ(read.rows, all);
    EXPECT_TRUE(read.damage.empty());
  };
  for (uint64_t cut = run.data_ends[1]; cut < run.data_ends[2]; cut += 7) {
    check(run.data.substr(0, cut), run.index);
  }
  for (uint64_t cut = run.index_ends[1]; cut < run.index_ends[2]; cut++) {
    check(run.data, run.index.substr(0, cut));
  }
}

TEST(Damage, resuming_never_cuts_whole_batches_behind_a_damaged_index_entry) {
  SmallRun run;
  std::string index = run.index;
  index[index.size() - 3] = static_cast<char>(~index[index.size() - 3]);
  write_file(run.index_path(), index);
  const auto writer =
      RunWriter::resume(posix_file_system(), run.dir(), WriterOptions(), real_clock()).value();
  EXPECT_EQ(read_file(run.data_path()), run.data);
  EXPECT_EQ(read_file(run.index_path()), index);
}

// The byte at `at` of a file flipped: rows are a part of those written, at most one batch is
// missing, and something is said.
void expect_one_batch_lost_at_most(const SmallRun& run, const std::string& path,
                                   const std::string& good, size_t at) {
  std::string bad = good;
  bad[at] = static_cast<char>(bad[at] ^ (at % 2 == 0 ? 0xff : 0x10));
  write_file(path, bad);
  const ReadBack read = read_events(run.dir());
  EXPECT_GE(read.rows.size(), (kFlushes - 1) * kRowsInFlush) << path << " at " << at;
  EXPECT_TRUE(
      std::includes(run.log.all.begin(), run.log.all.end(), read.rows.begin(), read.rows.end()))
      << path << " at " << at;
  EXPECT_FALSE(read.damage.empty()) << path << " at " << at;
}

TEST(Damage, any_flipped_byte_of_data_loses_at_most_its_batch_and_is_named) {
  const SmallRun run;
  ASSERT_TRUE(std::is_sorted(run.log.all.begin(), run.log.all.end()));
  for (size_t at = 0; at < run.data.size(); at++) {
    expect_one_batch_lost_at_most(run, run.data_path(), run.data, at);
  }
}

TEST(Damage, a_damaged_schema_loses_nothing) {
  SmallRun run;
  std::string data = run.data;
  data[20] = static_cast<char>(~data[20]);
  write_file(run.data_path(), data);
  const ReadBack read = read_events(run.dir());
  EXPECT_EQ(read.rows, run.log.all);
  ASSERT_EQ(read.damage.size(), 1u);
  EXPECT_NE(read.damage[0].what.find("schema"), std::string::npos);
}

TEST(Damage, a_flipped_byte_of_an_index_entry_loses_at_most_its_batch_and_is_named) {
  SmallRun run;
  // The header has a test of its own.
  for (size_t at = sizeof(IndexHeader); at < run.index.size(); at++) {
    expect_one_batch_lost_at_most(run, run.index_path(), run.index, at);
  }
}

TEST(Damage, a_damaged_index_header_is_named_and_loses_nothing) {
  SmallRun run;
  for (size_t at = 0; at < sizeof(IndexHeader); at++) {
    std::string bad = run.index;
    bad[at] = static_cast<char>(~bad[at]);
    write_file(run.index_path(), bad);
    const ReadBack read = read_events(run.dir());
    EXPECT_EQ(read.rows, run.log.all) << at;
    EXPECT_EQ(read.damage.size(), 1u) << at;
  }
}

TEST(Damage, an_index_of_a_newer_version_is_refused_with_its_number) {
  SmallRun run;
  IndexHeader header;
  header.version = 9;
  write_file(run.index_path(), encode(header) + run.index.substr(sizeof header));
  const ReadBack read = read_events(run.dir());
  EXPECT_TRUE(read.rows.empty());
  ASSERT_EQ(read.damage.size(), 1u);
  EXPECT_NE(read.damage[0].what.find("version 9"), std::string::npos);
}

TEST(Damage, missing_files_and_foreign_ones_are_no_harm) {
  SmallRun run;
  write_file(run.dir() + "/events/rank-x-1.idx", "junk");
  write_file(run.dir() + "/events/notes.txt", "mine");
  write_file(run.dir() + "/events/rank-0-000007.idx", "");
  write_file(run.dir() + "/events/rank-0-000008.arrows", run.data);
  const ReadBack read = read_events(run.dir());
  EXPECT_EQ(read.rows, run.log.all);
  ASSERT_EQ(read.damage.size(), 1u) << "data without its index";
  EXPECT_EQ(read.damage[0].file, run.dir() + "/events/rank-0-000008.arrows");
}

TEST(RunJson, round_trips) {
  RunInfo info = example_info("/somewhere/run");
  info.ended = 1796000100.5;
  info.exit_code = 1;
  info.signal = 9;
  info.framework = "torch";
  info.ranks.push_back({3, 77, "node-1", "lost", 812});
  info.steps = 813;
  info.overhead_percent = 0.7;
  info.dropped_records = 5;
  info.agent_pid = 78;
  info.agent_start_ticks = 123456789;
  info.ring_dir = "/dev/shm";
  info.not_captured.emplace_back("activations", "the model is compiled");
  const RunInfo back = RunInfo::from_json(info.to_json()).value();
  EXPECT_EQ(to_text(back.to_json()), to_text(info.to_json()));
  EXPECT_EQ(info.to_json()["format"], 1);
  EXPECT_EQ(to_text(RunInfo::from_json(example_info("/x").to_json()).value().to_json()),
            to_text(example_info("/x").to_json()))
      << "unknown values stay null";
}

TEST(RunJson, damage_and_newer_versions_are_told_apart_and_name_the_file) {
  SmallRun run;
  const std::string path = run.dir() + "/run.json";
  const std::string good = read_file(path);
  const auto status_with = [&](const std::string& text) {
    write_file(path, text);
    const Status status = RunReader::open(run.dir()).status();
    EXPECT_NE(status.message().find(path), std::string::npos) << status.message();
    return status;
  };
  for (const std::string text : {"", "{", "[]", "null", "{\"format\": 1}", "{\"id\": \"x\"}"}) {
    EXPECT_EQ(status_with(text).code(), StatusCode::kCorruption) << text;
  }
  const Status newer = status_with("{\"format\": 2, \"id\": \"x\"}");
  EXPECT_EQ(newer.code(), StatusCode::kUnsupported);
  EXPECT_FALSE(newer.hint().empty());
  for (size_t cut = 0; cut + 1 < good.size(); cut += 11) {
    EXPECT_EQ(status_with(good.substr(0, cut)).code(), StatusCode::kCorruption) << cut;
  }
  EXPECT_EQ(RunReader::open("/nowhere/run").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace paramedic::store
