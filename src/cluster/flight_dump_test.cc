#include "cluster/flight_dump.h"

#include <gtest/gtest.h>

#include "base/test_folder.h"

namespace paramedic::cluster {
namespace {

// What torch 2.13 writes for one all_reduce of gloo that is done.
constexpr const char* kGloo = R"({"comm_lib_version": "", "entries": [
  {"collective_seq_id": 8, "input_dtypes": ["Float"], "input_sizes": [[4, 3]], "is_p2p": false,
   "op_id": 1, "output_dtypes": ["Float"], "output_sizes": [[4, 3]], "p2p_seq_id": 0, "pg_id": 0,
   "process_group": ["0", "default_pg"], "profiling_name": "gloo:all_reduce", "record_id": 0,
   "retired": true, "state": "scheduled", "time_created_ns": 1796008246814325144,
   "time_discovered_completed_ns": 0, "time_discovered_started_ns": 0, "timeout_ms": 1800000}],
 "pg_config": {"": {"desc": "", "name": "", "ranks": "[]"}},
 "pg_status": {"0": {"last_completed_collective": "7", "last_enqueued_collective": "8",
                     "last_started_collective": "-1"}}, "version": "2.10"})";

// NCCL's keeps a ladder of states and, as a pickle, stacks.
constexpr const char* kNccl = R"({"entries": [
  {"collective_seq_id": 3, "input_dtypes": ["Float"], "input_sizes": [[2]], "is_p2p": false,
   "process_group": ["0", "default_pg"], "profiling_name": "nccl:broadcast", "retired": true,
   "state": "started", "frames": [
     {"filename": "/usr/lib/python3.11/site-packages/torch/distributed/x.py", "line": 1,
      "name": "broadcast"},
     {"filename": "/home/me/train.py", "line": 41, "name": "sync"}]}],
 "pg_config": {"0": {"desc": "default_pg", "name": "0", "ranks": "[1, 0]"}}})";

Result<FlightDump> parse(const char* text, const std::string& path) {
  return parse_flight_dump(as_bytes(text), path);
}

TEST(flight_dump, gloo_entries_are_done_when_they_are_retired) {
  const auto dump = parse(kGloo, "fr_rank_2.json");
  ASSERT_TRUE(dump.ok()) << dump.status().message();
  EXPECT_EQ(dump->rank, 2);
  EXPECT_EQ(dump->version, "2.10");
  ASSERT_EQ(dump->entries.size(), 1U);
  const FlightEntry& entry = dump->entries[0];
  EXPECT_EQ(entry.group, "0");
  EXPECT_EQ(entry.sequence, 8);
  EXPECT_EQ(entry.operation, "all_reduce");
  EXPECT_EQ(entry.backend, "gloo");
  EXPECT_EQ(entry.input_sizes, (std::vector<std::vector<int64_t>>{{4, 3}}));
  EXPECT_TRUE(entry.completed);
  EXPECT_EQ(entry.timeout_s, 1800);
  ASSERT_EQ(dump->groups.size(), 1U);
  EXPECT_EQ(dump->groups.at("0").last_enqueued, 8);
  EXPECT_EQ(dump->groups.at("0").last_completed, 7);
}

TEST(flight_dump, nccl_entries_are_done_when_completed_and_name_the_users_line) {
  const auto dump = parse(kNccl, "/tmp/nccl_trace_rank_1");
  ASSERT_TRUE(dump.ok()) << dump.status().message();
  ASSERT_EQ(dump->entries.size(), 1U);
  EXPECT_FALSE(dump->entries[0].completed);
  ASSERT_TRUE(dump->entries[0].where.has_value());
  EXPECT_EQ(dump->entries[0].where->file, "/home/me/train.py");
  EXPECT_EQ(dump->entries[0].where->line, 41);
  EXPECT_EQ(dump->groups.at("0").ranks, (std::vector<int32_t>{0, 1}));
}

TEST(flight_dump, the_rank_is_read_off_any_usual_name) {
  const std::pair<const char*, int> names[] = {
      {"dump_rank_3", 3},          {"host12.rank-7.json", 7}, {"fr0.json", 0},
      {"node4-trace.15.json", 15}, {"rank 2 of 8.json", 2},   {"/a/b/trace_0012", 12},
  };
  for (const auto& [name, rank] : names) {
    const auto dump = parse(kGloo, name);
    ASSERT_TRUE(dump.ok()) << name;
    EXPECT_EQ(dump->rank, rank) << name;
  }
  EXPECT_EQ(parse(kGloo, "dump.json").status().code(), StatusCode::kInvalidArgument);
}

TEST(flight_dump, a_damaged_file_a_second_dump_of_a_rank_and_a_log_are_named_and_the_rest_is_read) {
  const TemporaryFolder folder;
  FileSystem& files = posix_file_system();
  const auto write = [&](const std::string& name, const std::string& text) {
    ASSERT_TRUE(files.write_atomically(folder.path() + "/" + name, as_bytes(text)).ok());
  };
  ASSERT_TRUE(files.make_folders(folder.path() + "/inner").ok());
  write("inner/rank_1.json", kGloo);
  write("rank_0.json", kGloo);
  write("rank_1.json", kNccl);
  write("rank_2.json", std::string(kGloo).substr(0, 200));
  write("train.log", "epoch 1\n");
  const auto read = read_flight_dumps(files, {folder.path()});
  ASSERT_TRUE(read.ok()) << read.status().message();
  ASSERT_EQ(read->dumps.size(), 2U);
  EXPECT_EQ(read->dumps[0].rank, 0);
  EXPECT_EQ(read->dumps[1].path, folder.path() + "/inner/rank_1.json");
  ASSERT_EQ(read->problems.size(), 3U);
  EXPECT_NE(read->problems[0].find("rank_1.json is a second dump of rank 1"), std::string::npos);
  EXPECT_NE(read->problems[1].find("rank_2.json"), std::string::npos);
  EXPECT_NE(read->problems[2].find("train.log"), std::string::npos);
}

TEST(flight_dump, a_folder_without_a_dump_is_an_error_with_a_hint) {
  const TemporaryFolder folder;
  const auto read = read_flight_dumps(posix_file_system(), {folder.path()});
  ASSERT_FALSE(read.ok());
  EXPECT_FALSE(read.status().hint().empty());
  EXPECT_EQ(read_flight_dumps(posix_file_system(), {folder.path() + "/no"}).status().code(),
            StatusCode::kNotFound);
}

}  // namespace
}  // namespace paramedic::cluster
