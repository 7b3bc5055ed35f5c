#include "cluster/flight_dump.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <random>
#include <tuple>

#include "base/test_folder.h"
#include "cluster/test_dumps.h"

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
  const FlightCall& call = dump->calls[entry.call];
  EXPECT_EQ(entry.sequence, 8);
  EXPECT_EQ(call.operation, "all_reduce");
  EXPECT_EQ(call.backend, "gloo");
  EXPECT_EQ(call.input_sizes, (std::vector<std::vector<int64_t>>{{4, 3}}));
  EXPECT_TRUE(entry.completed);
  EXPECT_TRUE(dump->is_whole);
  ASSERT_EQ(dump->groups.size(), 1U);
  EXPECT_EQ(dump->groups[entry.group].name, "0");
  EXPECT_EQ(dump->groups[0].description, "default_pg");
  EXPECT_EQ(dump->groups[0].last_enqueued, 8);
  EXPECT_EQ(dump->groups[0].last_completed, 7);
}

TEST(flight_dump, nccl_entries_are_done_when_completed_and_name_the_users_line) {
  const auto dump = parse(kNccl, "/tmp/nccl_trace_rank_1");
  ASSERT_TRUE(dump.ok()) << dump.status().message();
  ASSERT_EQ(dump->entries.size(), 1U);
  EXPECT_FALSE(dump->entries[0].completed);
  const store::CallSite& where = dump->sites[dump->entries[0].site];
  EXPECT_EQ(where.file, "/home/me/train.py");
  EXPECT_EQ(where.line, 41);
  EXPECT_EQ(where.function, "sync");
  EXPECT_EQ(dump->groups[0].ranks, (std::vector<int32_t>{0, 1}));
}

TEST(flight_dump, the_status_of_a_group_goes_by_its_number_in_the_process_not_by_its_name) {
  const auto dump = parse(R"({"entries": [
    {"collective_seq_id": 4, "pg_id": 1, "process_group": ["2", "undefined"],
     "profiling_name": "gloo:all_reduce", "input_sizes": [[4]]}],
    "pg_status": {"1": {"last_completed_collective": 3, "last_enqueued_collective": 4},
                  "2": {"last_completed_collective": 9, "last_enqueued_collective": 9}}})",
                          "rank_1");
  ASSERT_TRUE(dump.ok());
  ASSERT_EQ(dump->groups.size(), 1U);
  EXPECT_EQ(dump->groups[0].name, "2");
  EXPECT_EQ(dump->groups[0].last_enqueued, 4);
}

TEST(flight_dump, numbers_and_places_that_no_job_has_are_passed_over) {
  const auto dump = parse(R"({"rank": 4294967297, "entries": [
    {"collective_seq_id": 18446744073709551615, "input_sizes": [[1], "x", {"a": [2]}, 7],
     "process_group": {"0": "a"}, "frames": [3, [4], {"line": -1, "filename": "/a.py"}]}, [[[]]],
    {"collective_seq_id": 2}], "pg_config": [["0"]],
    "pg_status": {"0": [1]}, "version": {"a": 1}})",
                          "rank_7.json");
  ASSERT_TRUE(dump.ok()) << dump.status().message();
  EXPECT_EQ(dump->rank, 7);
  EXPECT_EQ(dump->entries.size(), 2U);
  EXPECT_EQ(dump->entries[0].sequence, 0);
  EXPECT_EQ(dump->entries[0].site, 0U);
}

// Each entry's members, one after another; some repeat those of the entry before.
std::string random_entries(std::mt19937& random, const std::string& mark) {
  const std::vector<std::vector<std::string>> members = {
      {R"("collective_seq_id": 1)", R"("collective_seq_id": 12)", R"("collective_seq_id":"3")"},
      {R"("input_sizes": [[4, 3]])", R"("input_sizes": [[4, 3], [1]])", R"("input_sizes": 7)"},
      {R"("input_dtypes": ["Float"])", R"("input_dtypes": ["Float", "Long"])"},
      {R"("process_group": ["0", "default_pg"])", R"("process_group": ["1", "b"])"},
      {R"("profiling_name": "gloo:all_reduce")", R"("profiling_name":"nccl:send 0->1" )"},
      {R"("retired": true)", R"("retired":false)", R"("retired": [true])"},
      {R"("is_p2p": false)", R"("is_p2p": true)"},
      {R"("state": "completed")", R"("state": "started")"},
      {R"("pg_id": 0)", R"("pg_id": "1")", R"("pg_id": 2)"},
      {R"("frames": [{"filename": "/home/a.py", "line": 4, "name": "f"}])", R"("frames": [])"},
      {R"("other": {"a": [1, 2]})", R"("other": "b")", R"("state": "completed")"}};
  const auto below = [&](size_t count) { return random() % count; };
  std::string text;
  for (int i = 0; i < 40; ++i) {
    text += text.empty() ? "{" : ", {";
    if (!mark.empty()) text += fmt::format(R"("{}{}": 0, )", mark, i);
    for (size_t at = 0; at < members.size(); ++at) {
      if (below(30) == 0) continue;
      const size_t which = below(3) == 0 ? below(members[at].size()) : 0;
      text += members[at][which] + ", ";
    }
    text += fmt::format(R"("record_id": {}}})", i);
  }
  return R"({"entries": [)" + text + R"(], "pg_status": {"1": {"last_enqueued_collective": 3}}})";
}

TEST(flight_dump, entries_that_look_like_the_one_before_are_read_as_all_others_are) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 first(seed), second(seed);
    const auto usual = parse(random_entries(first, "").c_str(), "rank_1");
    // A member that no other entry has: none looks like the one before.
    const auto unlike = parse(random_entries(second, "x").c_str(), "rank_1");
    ASSERT_TRUE(usual.ok() && unlike.ok()) << seed;
    ASSERT_EQ(usual->entries.size(), unlike->entries.size()) << seed;
    for (size_t i = 0; i < usual->entries.size(); ++i) {
      const FlightEntry& one = usual->entries[i];
      const FlightEntry& other = unlike->entries[i];
      EXPECT_EQ(std::tie(one.group, one.call, one.site, one.sequence, one.completed),
                std::tie(other.group, other.call, other.site, other.sequence, other.completed))
          << seed << ' ' << i;
    }
    ASSERT_EQ(usual->calls.size(), unlike->calls.size());
    for (size_t i = 0; i < usual->calls.size(); ++i) {
      EXPECT_EQ(usual->calls[i].operation, unlike->calls[i].operation);
      EXPECT_EQ(usual->calls[i].dtypes, unlike->calls[i].dtypes);
      EXPECT_EQ(usual->calls[i].input_sizes, unlike->calls[i].input_sizes);
    }
    for (size_t i = 0; i < usual->groups.size(); ++i) {
      EXPECT_EQ(usual->groups[i].description, unlike->groups[i].description);
      EXPECT_EQ(usual->groups[i].last_enqueued, unlike->groups[i].last_enqueued);
    }
  }
}

TEST(flight_dump, a_pickle_tells_what_the_same_dump_tells_as_json) {
  TestDumps dumps(4);
  dumps.group("pair", {0, 1});
  for (int step = 0; step < 50; ++step) {
    for (int32_t rank = 0; rank < 4; ++rank) {
      dumps.call(rank, "all_reduce", 40 + step % 3, true, "0", 64 + step % 2);
      if (rank < 2) dumps.call(rank, "broadcast", 50, step < 49, "pair");
    }
  }
  for (int32_t rank = 0; rank < 4; ++rank) {
    const std::string json = dumps.json(rank), pickle = dumps.pickle(rank);
    const auto expected = parse_flight_dump(as_bytes(json), "a");
    const auto read = parse_flight_dump(as_bytes(pickle), "a");
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(read->rank, rank);
    EXPECT_EQ(read->first_record, expected->first_record);
    ASSERT_EQ(read->entries.size(), expected->entries.size());
    for (size_t i = 0; i < read->entries.size(); ++i) {
      const FlightEntry &one = read->entries[i], &other = expected->entries[i];
      EXPECT_EQ(std::tie(one.group, one.call, one.site, one.sequence, one.completed),
                std::tie(other.group, other.call, other.site, other.sequence, other.completed));
      EXPECT_EQ(one.created_ns, other.created_ns);
      EXPECT_EQ(read->sites[one.site].line, expected->sites[other.site].line);
      EXPECT_EQ(read->calls[one.call].input_sizes, expected->calls[other.call].input_sizes);
    }
    for (size_t i = 0; i < read->groups.size(); ++i) {
      EXPECT_EQ(read->groups[i].ranks, expected->groups[i].ranks);
      EXPECT_EQ(read->groups[i].description, expected->groups[i].description);
    }
  }
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
  std::vector<FlightDump> dumps;
  const auto read = read_flight_dumps(files, {folder.path()},
                                      [&](const FlightDump& dump) { dumps.push_back(dump); });
  ASSERT_TRUE(read.ok()) << read.status().message();
  ASSERT_EQ(dumps.size(), 2U);
  EXPECT_EQ(dumps[0].path, folder.path() + "/inner/rank_1.json");
  EXPECT_EQ(dumps[1].rank, 0);
  EXPECT_GT(dumps[1].written_ns, 0);
  ASSERT_EQ(read->total, 3U);
  EXPECT_NE(read->told[0].find("rank_1.json is a second dump of rank 1"), std::string::npos);
  EXPECT_NE(read->told[1].find("rank_2.json"), std::string::npos);
  EXPECT_NE(read->told[2].find("train.log"), std::string::npos);
}

TEST(flight_dump, a_pattern_and_a_thousand_files_are_read_and_what_is_no_file_is_never_waited_for) {
  const TemporaryFolder folder;
  FileSystem& files = posix_file_system();
  for (int rank = 0; rank < 1000; ++rank) {
    const std::string path = folder.path() + "/rank_" + std::to_string(rank);
    ASSERT_TRUE(files.write_atomically(path, as_bytes(rank % 10 == 0 ? "{" : kNccl)).ok());
  }
  ASSERT_EQ(::mkfifo((folder.path() + "/rank_1000").c_str(), 0600), 0);
  size_t taken = 0;
  const auto all = read_flight_dumps(files, {folder.path()}, [&](const FlightDump&) { ++taken; });
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(taken, 900U);
  EXPECT_EQ(all->total, 101U);
  taken = 0;
  const auto some = read_flight_dumps(files, {folder.path() + "/rank_99[0-9]"},
                                      [&](const FlightDump&) { ++taken; });
  ASSERT_TRUE(some.ok());
  EXPECT_EQ(taken, 9U);
}

TEST(flight_dump, a_folder_without_a_dump_is_an_error_with_a_hint) {
  const TemporaryFolder folder;
  const auto take = [](const FlightDump&) {};
  const auto read = read_flight_dumps(posix_file_system(), {folder.path()}, take);
  ASSERT_FALSE(read.ok());
  EXPECT_FALSE(read.status().hint().empty());
  EXPECT_EQ(read_flight_dumps(posix_file_system(), {folder.path() + "/no"}, take).status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(read_flight_dumps(posix_file_system(), {folder.path() + "/*"}, take).status().code(),
            StatusCode::kNotFound);
}

}  // namespace
}  // namespace paramedic::cluster
