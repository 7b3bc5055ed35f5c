#include "cluster/call_verdict.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/json.h"
#include "cluster/test_cluster.h"
#include "cluster/test_dumps.h"

namespace paramedic::cluster {
namespace {

CallVerdict judge(const TestDumps& dumps, const std::vector<int32_t>& without = {}) {
  CallBook book;
  for (const FlightDump& dump : dumps.dumps()) {
    if (std::find(without.begin(), without.end(), dump.rank) == without.end()) book.add(dump);
  }
  book.settle();
  return judge_calls(book, "the flight recorders");
}

TEST(call_verdict,
     a_rank_that_has_not_come_is_named_with_its_last_call_and_the_line_of_the_others) {
  TestDumps dumps(4);
  dumps.all_reduce_on_all(6);
  for (const int32_t rank : {0, 1, 3}) dumps.call(rank, "broadcast", 61, false);
  const auto verdict = judge(dumps);
  ASSERT_EQ(verdict.findings.size(), 1U);
  const rules::Finding& finding = verdict.findings[0];
  EXPECT_EQ(finding.id, "hang_missing_rank");
  EXPECT_EQ(finding.severity, rules::Severity::kError);
  EXPECT_EQ(finding.rank, 2);
  EXPECT_EQ(finding.where->line, 61);
  EXPECT_EQ(finding.message,
            "rank 2 has not come to broadcast of float32 [64] (train.py:61), call 7 of group "
            "default_pg, where ranks 0, 1 and 3 wait");
  EXPECT_EQ(finding.evidence[0],
            "the last call of rank 2 in it was call 6, all_reduce of float32 [64] (train.py:50); "
            "it has returned from it");
  ASSERT_EQ(verdict.groups.size(), 1U);
  EXPECT_EQ(verdict.groups[0].behind, (std::vector<std::pair<int32_t, int64_t>>{{2, 6}}));
}

TEST(call_verdict, dumps_that_are_written_after_the_error_still_name_the_rank_that_never_came) {
  TestDumps dumps(3);
  dumps.all_reduce_on_all(6);
  for (const int32_t rank : {0, 1}) dumps.call(rank, "all_reduce", 61);
  const auto verdict = judge(dumps);
  ASSERT_EQ(verdict.findings.size(), 1U);
  EXPECT_EQ(verdict.findings[0].rank, 2);
}

TEST(call_verdict, a_healthy_job_has_no_finding_wherever_its_ring_was_overwritten) {
  TestDumps dumps(4);
  dumps.group("1", {0, 2});
  for (const int32_t rank : {0, 2}) dumps.call(rank, "all_reduce", 20, true, "1");
  dumps.all_reduce_on_all(40);
  dumps.overwrite(0, 30);
  dumps.overwrite(3, 5);
  const auto verdict = judge(dumps);
  EXPECT_TRUE(verdict.findings.empty());
  for (const GroupStanding& group : verdict.groups) {
    EXPECT_TRUE(group.behind.empty()) << group.name;
    const bool is_sub = group.name == "1";
    EXPECT_EQ(group.not_known, is_sub ? std::vector<int32_t>{0} : std::vector<int32_t>{});
  }
}

TEST(call_verdict, a_call_that_has_just_begun_is_no_hang) {
  TestDumps dumps(2);
  dumps.all_reduce_on_all(3);
  dumps.call(0, "all_reduce", 61, false);
  dumps.dump(0).written_ns = dumps.dump(0).entries.back().created_ns + 300'000'000;
  const auto verdict = judge(dumps);
  ASSERT_EQ(verdict.findings.size(), 1U);
  EXPECT_EQ(verdict.findings[0].severity, rules::Severity::kInfo);
}

TEST(call_verdict, ranks_without_a_dump_are_not_accused_when_another_is_known_to_be_missing) {
  TestDumps dumps(5);
  dumps.all_reduce_on_all(3);
  for (const int32_t rank : {0, 1, 3, 4}) dumps.call(rank, "all_reduce", 61, false);
  const auto known = judge(dumps, {4});
  ASSERT_EQ(known.findings.size(), 1U);
  EXPECT_EQ(known.findings[0].rank, 2);
  EXPECT_LT(known.findings[0].confidence, 0.8);
  EXPECT_EQ(known.groups[0].without_dump, std::vector<int32_t>{4});

  const auto unknown = judge(dumps, {2});
  ASSERT_EQ(unknown.findings.size(), 1U);
  EXPECT_EQ(unknown.findings[0].rank, 2);
  EXPECT_EQ(unknown.findings[0].confidence, 0.5);
  EXPECT_NE(unknown.findings[0].message.find("of rank 2 no call is told"), std::string::npos);
}

TEST(call_verdict, a_call_that_all_have_entered_is_the_networks) {
  TestDumps dumps(3);
  dumps.all_reduce_on_all(3);
  for (const int32_t rank : {0, 1, 2}) dumps.call(rank, "all_reduce", 61, false);
  const auto verdict = judge(dumps);
  ASSERT_EQ(verdict.findings.size(), 1U);
  EXPECT_EQ(verdict.findings[0].id, "hang_all_ranks");
  EXPECT_FALSE(verdict.findings[0].rank.has_value());
}

TEST(call_verdict, the_way_leads_over_groups_and_transfers_to_the_rank_that_waits_for_nobody) {
  TestDumps dumps(4);
  dumps.group("1", {0, 1});
  dumps.group("2", {2, 3});
  dumps.all_reduce_on_all(3);
  dumps.call(0, "all_reduce", 20, false, "1");  // rank 1 does not come, it waits for rank 3
  dumps.call(1, "recv 1<-3", 30, false);
  dumps.call(2, "all_reduce", 20, false, "2");  // nor does rank 3
  const auto verdict = judge(dumps);
  ASSERT_EQ(verdict.findings.size(), 1U);
  EXPECT_EQ(verdict.findings[0].id, "hang_missing_rank");
  EXPECT_EQ(verdict.findings[0].rank, 3);
}

TEST(call_verdict, groups_that_wait_for_each_other_are_a_circle) {
  TestDumps dumps(4);
  dumps.group("1", {0, 1, 2, 3});
  dumps.all_reduce_on_all(3);
  for (const int32_t rank : {0, 1, 3}) dumps.call(rank, "all_reduce", 20, false, "1");
  dumps.call(2, "all_reduce", 21, false, "0");
  const auto verdict = judge(dumps);
  ASSERT_EQ(verdict.findings.size(), 1U);
  EXPECT_EQ(verdict.findings[0].id, "hang_all_ranks");
  EXPECT_EQ(verdict.findings[0].rank, 2);
  EXPECT_EQ(verdict.findings[0].where->line, 21);
}

TEST(call_verdict, a_skipped_call_is_a_mismatch_and_the_hang_after_it_is_not_told_twice) {
  TestDumps dumps(4);
  for (int step = 0; step < 3; ++step) {
    for (const int32_t rank : {0, 1, 2, 3}) {
      dumps.call(rank, "all_reduce", 50, step < 2);
      if (rank == 1 && step == 1) continue;
      dumps.call(rank, "broadcast", 51, step < 2);
    }
  }
  const auto verdict = judge(dumps);
  ASSERT_EQ(verdict.findings.size(), 1U);
  EXPECT_EQ(verdict.findings[0].id, "collective_mismatch");
  EXPECT_EQ(verdict.findings[0].rank, 1);
  EXPECT_EQ(verdict.groups[0].parted, 4);
}

TEST(call_verdict, a_call_that_is_skipped_before_one_of_another_group_is_found_over_all_groups) {
  TestDumps dumps(4);
  dumps.group("1", {0, 2});
  dumps.group("2", {1, 3});
  for (int step = 0; step < 7; ++step) {
    for (const int32_t rank : {0, 1, 2, 3}) {
      const bool is_last = step == 6;
      dumps.call(rank, "all_reduce", 50);
      if (is_last && rank == 2) {
        dumps.call(rank, "all_reduce", 52, false, "1", 4);
        continue;
      }
      dumps.call(rank, "broadcast", 51, !is_last || rank != 0);
      if (is_last && rank == 0) continue;  // the root waits for rank 2
      dumps.call(rank, "all_reduce", 52, true, rank % 2 == 0 ? "1" : "2", 4);
      if (is_last) dumps.call(rank, "all_reduce", 50, false);
    }
  }
  const auto verdict = judge(dumps);
  ASSERT_EQ(verdict.findings.size(), 1U);
  EXPECT_EQ(verdict.findings[0].id, "collective_mismatch");
  EXPECT_EQ(verdict.findings[0].rank, 2);
  EXPECT_EQ(verdict.findings[0].where->line, 52);
}

TEST(call_verdict, one_call_of_another_size_hides_no_later_hang) {
  TestDumps dumps(4);
  for (const int32_t rank : {0, 1, 2, 3}) {
    dumps.call(rank, "all_reduce", 50, true, "0", rank == 3 ? 65 : 64);
    dumps.call(rank, "broadcast", 51);
  }
  dumps.all_reduce_on_all(4);
  for (const int32_t rank : {1, 2, 3}) dumps.call(rank, "all_reduce", 61, false);
  const auto verdict = judge(dumps);
  ASSERT_EQ(verdict.findings.size(), 2U);
  EXPECT_EQ(verdict.findings[0].id, "collective_mismatch");
  EXPECT_EQ(verdict.findings[0].rank, 3);
  EXPECT_EQ(verdict.findings[1].id, "hang_missing_rank");
  EXPECT_EQ(verdict.findings[1].rank, 0);
}

TEST(call_verdict, ranks_that_do_not_tell_the_members_are_compared_with_those_that_do) {
  TestDumps dumps(3);
  dumps.dump(1).groups[0].ranks.clear();
  dumps.all_reduce_on_all(3);
  for (const int32_t rank : {0, 2}) dumps.call(rank, "all_reduce", 61, false);
  const auto verdict = judge(dumps);
  ASSERT_EQ(verdict.groups.size(), 1U);
  ASSERT_EQ(verdict.findings.size(), 1U);
  EXPECT_EQ(verdict.findings[0].rank, 1);
}

TEST(call_verdict, calls_that_are_made_as_one_and_a_group_made_anew_are_compared_rightly) {
  TestDumps dumps(3);
  dumps.all_reduce_on_all(3);
  for (FlightDump& dump : std::vector<FlightDump>(dumps.dumps())) {
    FlightDump& one = dumps.dump(dump.rank);
    FlightEntry again = one.entries.back();  // the same number: made as one with it
    one.entries.push_back(again);
    again.sequence = 1;  // the group of that name was made anew
    if (dump.rank < 2) one.entries.push_back(again);
  }
  const auto verdict = judge(dumps);
  for (const auto& finding : verdict.findings) {
    EXPECT_NE(finding.id, "collective_mismatch") << finding.message;
  }
}

TEST(call_verdict, hostile_numbers_cost_neither_memory_nor_an_accusation) {
  TestDumps dumps(2);
  for (int i = 0; i < 1000; ++i) {
    for (const int32_t rank : {0, 1}) {
      dumps.call(rank, "all_reduce", 50);
      dumps.dump(rank).entries.back().sequence = i % 2 == 0 ? INT64_MAX - 1 - i : INT64_MIN + i;
    }
  }
  const auto verdict = judge(dumps);
  for (const auto& finding : verdict.findings) {
    EXPECT_NE(finding.id, "collective_mismatch") << finding.message;
  }
}

CallVerdict judge(const Job& job) {
  CallBook book;
  const int64_t newest_ns = 100'000'000'000;
  book.add(job, {{0, newest_ns}, {1, newest_ns}, {2, newest_ns}});
  book.settle();
  return judge_calls(book, "a run");
}

TEST(call_verdict, a_run_is_judged_by_the_calls_that_were_seen_in_python) {
  const store::GroupInfo group{"0", "default_pg", "gloo", {0, 1, 2}, 1800};
  const store::CallSite site{"train.py", 61, "train"};
  Job job;
  for (const int32_t rank : {0, 1, 2}) {
    for (int64_t call = 0; call < (rank == 1 ? 3 : 4); ++call) {
      store::CollectiveRow row;
      row.origin = origin_of(rank, 1'000'000'000);
      row.group = &group;
      row.sequence = call;
      row.operation = "all_reduce";
      row.where = &site;
      row.entered_ns = row.origin.time_ns;
      job.take(row);
      row.left_ns = call < 3 ? row.entered_ns + 1 : 0;
      if (row.left_ns != 0) job.take(row);
    }
  }
  const auto verdict = judge(job);
  ASSERT_EQ(verdict.findings.size(), 1U);
  EXPECT_EQ(verdict.findings[0].id, "hang_missing_rank");
  EXPECT_EQ(verdict.findings[0].rank, 1);
  EXPECT_EQ(verdict.findings[0].where->line, 61);
}

TEST(call_verdict, a_run_whose_calls_are_made_below_python_is_judged_by_the_recorders_frontier) {
  Job job;
  for (const int32_t rank : {0, 1, 2}) {
    store::EventRow row;
    row.origin = origin_of(rank, 9'000'000'000);
    row.kind = "stalled";
    const Json flight = {{"last_enqueued", rank == 1 ? 35 : 36},
                         {"last_completed", 35},
                         {"open", {{"operation", "all_reduce"}}}};
    row.json = to_text({{"since_ns", 8'000'000'000}, {"flight", {{"0", flight}}}});
    job.take(row);
  }
  const auto verdict = judge(job);
  ASSERT_EQ(verdict.findings.size(), 1U);
  EXPECT_EQ(verdict.findings[0].rank, 1);
  EXPECT_EQ(verdict.findings[0].evidence[0],
            "the last call of rank 1 in it was call 35; it has returned from it");
}

TEST(call_verdict, what_is_made_of_bytes_is_what_was_told) {
  TestDumps dumps(3);
  dumps.all_reduce_on_all(6);
  for (const int32_t rank : {0, 1}) dumps.call(rank, "broadcast", 61, false);
  CallBook book;
  for (const int32_t rank : {0, 1, 2}) {
    const auto dump = parse_flight_dump(as_bytes(dumps.json(rank)), "dump");
    ASSERT_TRUE(dump.ok()) << dump.status().message();
    EXPECT_EQ(dump->rank, rank);
    book.add(*dump);
  }
  book.settle();
  const auto read = judge_calls(book, "the flight recorders");
  ASSERT_EQ(read.findings.size(), 1U);
  EXPECT_EQ(read.findings[0].message, judge(dumps).findings[0].message);
}

}  // namespace
}  // namespace paramedic::cluster
