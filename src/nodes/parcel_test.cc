#include "nodes/parcel.h"

#include <gtest/gtest.h>

#include <random>

#include "nodes/board.h"
#include "nodes/clock_filter.h"
#include "nodes/look.h"

namespace paramedic::nodes {
namespace {

Parcel example() {
  Parcel parcel;
  parcel.job = "big-7";
  parcel.node = "gpu3-1a2b3c";
  parcel.asks_sizes = true;
  parcel.pieces = {{"events/rank-3-000000.arrows", 8, std::string("\0\1\2", 3)},
                   {"events/rank-3-000000.idx", 0, "index"}};
  parcel.info = R"({"id": "x"})";
  parcel.look = "{}";
  parcel.collector = "c1";
  parcel.findings_seen = 4;
  return parcel;
}

TEST(Parcel, comes_back_as_it_was) {
  const Parcel sent = example();
  const Parcel got = decode_parcel(encode(sent)).value();
  EXPECT_EQ(got.job, sent.job);
  EXPECT_EQ(got.node, sent.node);
  EXPECT_EQ(got.asks_sizes, sent.asks_sizes);
  EXPECT_EQ(got.info, sent.info);
  EXPECT_EQ(got.look, sent.look);
  EXPECT_EQ(got.collector, sent.collector);
  EXPECT_EQ(got.findings_seen, sent.findings_seen);
  ASSERT_EQ(got.pieces.size(), 2U);
  EXPECT_EQ(got.pieces[0].file, sent.pieces[0].file);
  EXPECT_EQ(got.pieces[0].offset, 8U);
  EXPECT_EQ(got.pieces[0].bytes, sent.pieces[0].bytes);
  EXPECT_EQ(got.pieces[1].bytes, "index");
}

TEST(Parcel, any_cut_and_any_changed_byte_is_refused_or_still_a_parcel) {
  const std::string whole = encode(example());
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(decode_parcel(whole.substr(0, size)).ok()) << size;
  }
  std::mt19937 random(1);
  for (int i = 0; i < 5000; ++i) {
    std::string bytes = whole;
    bytes[random() % bytes.size()] = static_cast<char>(random());
    const auto parcel = decode_parcel(bytes);
    if (!parcel.ok()) continue;
    EXPECT_TRUE(is_plain_name(parcel->job));
    EXPECT_TRUE(is_plain_name(parcel->node));
    for (const Piece& piece : parcel->pieces) EXPECT_TRUE(is_segment_file(piece.file));
  }
}

TEST(Parcel, no_name_leads_out_of_its_folder) {
  for (const char* name : {"", ".", "..", "a/b", "../a", ".hidden", "a b", "a\n", "\xc3\xa4"}) {
    EXPECT_FALSE(is_plain_name(name)) << name;
  }
  EXPECT_FALSE(is_plain_name(std::string(101, 'a')));
  EXPECT_TRUE(is_plain_name("gpu-3.rack_1"));
  EXPECT_TRUE(is_segment_file("collectives/rank-12-000003.idx"));
  for (const char* file : {"run.json", "events/../../x", "stats/rank-0-000000.idx",
                           "events/rank-0-000000.idx/x", "events/rank-0-0.idx", "events/",
                           "events/rank-0-000000.txt", "/events/rank-0-000000.idx"}) {
    EXPECT_FALSE(is_segment_file(file)) << file;
  }
}

TEST(Receipt, comes_back_as_it_was) {
  Receipt sent;
  sent.has_sizes = true;
  sent.sizes = {{"events/rank-3-000000.idx", 112}};
  sent.received_ns = 5;
  sent.answered_ns = 6;
  sent.collector = "c1";
  sent.findings_count = 2;
  sent.has_judged = true;
  sent.findings = {{"k", Json{{"id", "straggler"}}}};
  const Receipt got = decode_receipt(encode(sent)).value();
  EXPECT_EQ(got.sizes, sent.sizes);
  EXPECT_EQ(got.received_ns, 5);
  EXPECT_EQ(got.answered_ns, 6);
  EXPECT_EQ(got.findings_count, 2U);
  EXPECT_TRUE(got.has_judged);
  ASSERT_EQ(got.findings.size(), 1U);
  EXPECT_EQ(got.findings[0].json["id"], "straggler");
  EXPECT_FALSE(decode_receipt("[]").ok());
  EXPECT_FALSE(decode_receipt("").ok());
}

TEST(Look, comes_back_as_it_was) {
  Look sent;
  sent.moment.time_ns = 7;
  sent.stored_ns = 6;
  sent.ended = true;
  sent.clock = ClockOffset{-3, 2};
  cluster::RankProcess process;
  process.rank = 3;
  process.pid = 44;
  process.ring_id = UINT64_MAX;
  process.world_size = 4;
  process.alive = true;
  process.state = 'S';
  process.wait = "futex_do_wait";
  process.exit_signal = 9;
  sent.moment.processes.push_back(process);
  const Look got = Look::from_json(parse_json(to_text(sent.to_json()), "look").value()).value();
  EXPECT_EQ(to_text(got.to_json()), to_text(sent.to_json()));
  EXPECT_EQ(got.moment.processes.at(0).ring_id, UINT64_MAX);
}

TEST(ClockFilter, believes_the_quickest_round_trip) {
  // GIVEN a clock that shows 1 s more, and ways of 1 ms there and 1 to 100 ms back
  constexpr int64_t kMs = 1'000'000;
  ClockFilter filter;
  EXPECT_FALSE(filter.offset());
  for (int64_t back_ms : {100, 40, 1, 70}) {
    const int64_t sent = 5000 * kMs;
    filter.add(sent, sent + kMs - 1000 * kMs, sent + 2 * kMs - 1000 * kMs,
               sent + (2 + back_ms) * kMs, 0);
  }
  // THEN the one with equal ways is taken
  EXPECT_EQ(filter.offset()->offset_ns, 1000 * kMs);
  EXPECT_EQ(filter.offset()->error_ns, kMs);
  // A clock that was set back meanwhile says nothing.
  filter.add(10, 5, 5, 9, 0);
  EXPECT_EQ(filter.offset()->offset_ns, 1000 * kMs);
}

TEST(Board, tells_each_node_what_it_has_not_seen) {
  Boards boards("c1");
  Parcel parcel;
  parcel.job = "j";
  parcel.node = "n";
  boards.of("j").post("a", Json{{"v", 1}});
  boards.of("j").post("b", Json{{"v", 1}});
  Receipt first;
  boards.fill(parcel, first);
  ASSERT_EQ(first.findings.size(), 2U);
  parcel.collector = first.collector;
  parcel.findings_seen = first.findings_count;
  Receipt nothing_new;
  boards.fill(parcel, nothing_new);
  EXPECT_TRUE(nothing_new.findings.empty());
  boards.of("j").post("a", Json{{"v", 2}});
  Receipt changed;
  boards.fill(parcel, changed);
  ASSERT_EQ(changed.findings.size(), 1U);
  EXPECT_EQ(changed.findings[0].json["v"], 2);
  // Another collector has counted otherwise: everything is new.
  parcel.collector = "c0";
  Receipt all;
  boards.fill(parcel, all);
  EXPECT_EQ(all.findings.size(), 2U);
}

}  // namespace
}  // namespace paramedic::nodes
