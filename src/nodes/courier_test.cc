#include "nodes/courier.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/test_folder.h"
#include "nodes/folder_transport.h"
#include "nodes/inbox.h"
#include "nodes/judge.h"
#include "nodes/test_node.h"

namespace paramedic::nodes {
namespace {

constexpr int64_t kS = 1'000'000'000;
constexpr int64_t kStart = 1'700'000'000 * kS;

std::map<std::string, std::string> segments_of(const std::string& part) {
  std::map<std::string, std::string> contents;
  for (const char* table : {"events", "collectives", "scalars", "findings"}) {
    const auto names = posix_file_system().list(part + "/" + table);
    if (!names.ok()) continue;
    for (const std::string& name : *names) {
      const std::string file = std::string(table) + "/" + name;
      contents[file] = posix_file_system().read(part + "/" + file).value();
    }
  }
  return contents;
}

TEST(Outbox, brings_every_segment_byte_for_byte_in_small_pieces) {
  const TemporaryFolder folder;
  TestNode node(folder.path() + "/run", 0, 3, 3);
  Inbox inbox(folder.path() + "/jobs");
  Outbox outbox(node.dir());
  for (int64_t second = 1; second <= 20; ++second) {
    node.all_reduce(kStart + second * kS);
    node.flush(kStart + second * kS);
    // The budget cuts batches in two.
    for (bool is_all = false; !is_all;) {
      Parcel parcel;
      parcel.job = "job";
      parcel.node = "n";
      Outbox::Load load = outbox.next(500);
      is_all = load.is_all;
      EXPECT_LE(load.bytes, 500 + (64U << 10));
      parcel.pieces = load.pieces;
      EXPECT_FALSE(inbox.take(parcel).value().has_sizes);
      outbox.delivered(load.pieces);
    }
  }
  EXPECT_EQ(segments_of(folder.path() + "/jobs/job/nodes/n"), segments_of(node.dir()));
}

TEST(Outbox, that_starts_anew_sends_only_what_is_missing) {
  const TemporaryFolder folder;
  TestNode node(folder.path() + "/run", 0, 1, 1);
  node.all_reduce(kStart);
  node.flush(kStart);
  Inbox inbox(folder.path() + "/jobs");
  Parcel parcel;
  parcel.job = "job";
  parcel.node = "n";
  parcel.asks_sizes = true;
  parcel.pieces = Outbox(node.dir()).next(1 << 20).pieces;
  Outbox again(node.dir());
  again.know(inbox.take(parcel).value().sizes);
  EXPECT_TRUE(again.next(1 << 20).pieces.empty());
  node.all_reduce(kStart + kS);
  node.flush(kStart + kS);
  EXPECT_EQ(again.next(1 << 20).pieces.size(), 2U);
}

// A transport that does not come through.
class Nobody : public Transport {
 public:
  explicit Nobody(Status status) : status_(std::move(status)) {}
  Result<Receipt> send(const Parcel&) override { return status_; }
  [[nodiscard]] int64_t clock_grain_ns() const override { return 0; }

 private:
  const Status status_;
};

TEST(Courier, waits_longer_and_longer_for_a_collector_that_is_away_and_says_so_once) {
  const TemporaryFolder folder;
  const TestNode node(folder.path() + "/run", 0, 1, 1);
  std::vector<std::string> notes;
  Courier courier({node.dir(), "job", "n"}, std::make_unique<Nobody>(io_error("no route")),
                  {.finding = [](const Receipt::Finding&) {},
                   .note = [&](const std::string& text) { notes.push_back(text); }});
  int last_ms = 0;
  for (int i = 0; i < 50; ++i) {
    const int wait_ms = courier.step();
    EXPECT_GE(wait_ms, last_ms);
    EXPECT_LE(wait_ms, 10'000);
    last_ms = wait_ms;
  }
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("no route"), std::string::npos);
  EXPECT_FALSE(courier.is_done());
}

TEST(Courier, gives_up_when_its_token_is_wrong) {
  const TemporaryFolder folder;
  const TestNode node(folder.path() + "/run", 0, 1, 1);
  std::vector<std::string> notes;
  Courier courier({node.dir(), "job", "n"},
                  std::make_unique<Nobody>(invalid_argument("wrong token")),
                  {.finding = [](const Receipt::Finding&) {},
                   .note = [&](const std::string& text) { notes.push_back(text); }});
  (void)courier.step();
  EXPECT_TRUE(courier.is_done());
  EXPECT_EQ(notes.size(), 1U);
}

TEST(FolderTransport, brings_a_run_to_a_judge_who_only_shares_the_folder) {
  const TemporaryFolder folder;
  const std::string shared = folder.path() + "/shared";
  TestNode first(folder.path() + "/a", 0, 1, 2);
  TestNode second_node(folder.path() + "/b", 1, 1, 2);
  std::vector<std::unique_ptr<Courier>> couriers;
  std::vector<Receipt::Finding> told;
  for (const auto* node : {&first, &second_node}) {
    couriers.push_back(std::make_unique<Courier>(
        CourierOptions{node->dir(), "job", node == &first ? "a" : "b"},
        make_folder_transport(shared),
        CourierCallbacks{.finding = [&](const Receipt::Finding& found) { told.push_back(found); },
                         .note = [](const std::string&) {}}));
  }
  for (int64_t at = 0; at < 9; ++at) {
    first.all_reduce(kStart + at * kS);
    second_node.all_reduce(kStart + at * kS);
  }
  first.enter_all_reduce(kStart + 10 * kS);
  Board board;
  std::vector<rules::Finding> found;
  auto judge = Judge::open(shared + "/job", board,
                           {.finding = [&](const rules::Finding& f) { found.push_back(f); },
                            .note = [](const std::string&) {}})
                   .value();
  // While one judges, no other does.
  EXPECT_FALSE(Judge::open(shared + "/job", board, {}).ok());
  for (const int64_t second : {14, 24}) {
    for (int64_t at = 12; at <= second; at += 2) {
      second_node.stall(1, 33, kStart + 10 * kS, kStart + at * kS);
    }
    first.flush(kStart + second * kS);
    second_node.flush(kStart + second * kS);
    for (const auto& courier : couriers) {
      for (int i = 0; i < 4; ++i) (void)courier->step();
    }
    judge->tick(second * kS);
  }
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].id, "hang_missing_rank");
  EXPECT_EQ(found[0].rank, 1);
}

}  // namespace
}  // namespace paramedic::nodes
