// Collectives from the ring through the store and back: once each, whatever happens in between.

#include <gtest/gtest.h>
#include <unistd.h>

#include "record/ring_writer.h"
#include "store/test_support.h"

namespace paramedic::store {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

class CollectivesTest : public testing::Test {
 protected:
  CollectivesTest() {
    record::RingOptions options;
    options.directory = folder_.path();
    options.run_id = "run-7";
    options.ring_bytes = record::kRingBytesMin;
    options.rank = 1;
    options.world_size = 2;
    options.ring_id = 0xabc;
    options.clock = &clock_;
    ring_ = record::RingWriter::create(options).value();
    const int64_t line[] = {31};
    group_ = *ring_->define({Kind::kGroup, stats::DType::kFloat32, {}, "0"});
    operation_ = *ring_->define({Kind::kOperation, stats::DType::kFloat32, {}, "all_reduce"});
    where_ = *ring_->define({Kind::kCallSite, stats::DType::kFloat32, line, "main\n/a/train.py"});
    writer_ = RunWriter::create(posix_file_system(), example_info(dir()), WriterOptions(), clock_)
                  .value();
    importer_ = RingImporter::open(ring_->path(), std::nullopt).value();
  }
  [[nodiscard]] std::string dir() const { return folder_.path() + "/run"; }

  void tell_group(std::string_view json) {
    const std::string_view kind = kGroupEvent;
    const record::EventItem item = {static_cast<uint32_t>(kind.size()),
                                    static_cast<uint32_t>(json.size())};
    const Bytes parts[] = {std::as_bytes(std::span(&item, 1)), as_bytes(kind), as_bytes(json)};
    EXPECT_TRUE(ring_->append({record::RecordType::kEvent, Mode::kTrain, -1, 1}, parts));
  }
  void enter(int64_t number) {
    record::CollectiveItem item{};
    item.group = group_;
    item.operation = operation_;
    item.where = number % 2 == 0 ? where_ : record::kNoDefinition;
    item.peer = -1;
    item.number = number;
    item.bytes = 24;
    item.dtype = static_cast<uint8_t>(stats::DType::kBfloat16);
    const int64_t sizes[] = {3, 4};
    const Bytes parts[] = {std::as_bytes(std::span(&item, 1)), std::as_bytes(std::span(sizes))};
    EXPECT_TRUE(ring_->append({record::RecordType::kCollectiveEntered, Mode::kTrain, 4, 2}, parts));
  }
  void leave(int64_t number) {
    const record::CollectiveLeftItem item = {group_, 0, number};
    const Bytes parts[] = {std::as_bytes(std::span(&item, 1))};
    EXPECT_TRUE(ring_->append({record::RecordType::kCollectiveLeft, Mode::kTrain, 4, 1}, parts));
  }
  void store() {
    EXPECT_TRUE(importer_->drain(*writer_).ok());
    EXPECT_TRUE(writer_->flush().ok());
    importer_->acknowledge();
  }
  std::vector<CollectiveRow> stored() {
    reader_ = RunReader::open(dir()).value();
    std::vector<CollectiveRow> rows;
    EXPECT_TRUE(reader_
                    ->read_collectives([&](const CollectiveRow& row) {
                      rows.push_back(row);
                      return true;
                    })
                    .ok());
    EXPECT_TRUE(reader_->damage().empty());
    return rows;
  }

  TemporaryFolder folder_;
  VirtualClock clock_{1'796'000'000 * kSecond};
  std::unique_ptr<record::RingWriter> ring_;
  std::unique_ptr<RunWriter> writer_;
  std::unique_ptr<RingImporter> importer_;
  std::unique_ptr<RunReader> reader_;
  uint32_t group_ = 0;
  uint32_t operation_ = 0;
  uint32_t where_ = 0;
};

TEST_F(CollectivesTest, a_call_comes_back_as_it_was_recorded) {
  tell_group(R"({"name":"0","description":"default_pg","backend":"gloo","ranks":[1,0],)"
             R"("timeout_s":1800})");
  enter(0);
  clock_.advance(5'000'000);
  leave(0);
  store();
  const auto rows = stored();
  ASSERT_EQ(rows.size(), 1u);
  const CollectiveRow& row = rows[0];
  EXPECT_EQ(row.origin.rank, 1);
  EXPECT_EQ(row.origin.step, 4);
  EXPECT_EQ(row.group->name, "0");
  EXPECT_EQ(row.group->description, "default_pg");
  EXPECT_EQ(row.group->backend, "gloo");
  EXPECT_EQ(row.group->ranks, (Members{0, 1}));
  EXPECT_EQ(row.group->timeout_s, 1800);
  EXPECT_EQ(row.operation, "all_reduce");
  EXPECT_EQ(row.dtype, stats::DType::kBfloat16);
  EXPECT_EQ(row.sizes, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(row.bytes, 24u);
  ASSERT_NE(row.where, nullptr);
  EXPECT_EQ(row.where->file, "/a/train.py");
  EXPECT_EQ(row.where->line, 31);
  EXPECT_EQ(row.where->function, "main");
  EXPECT_EQ(row.left_ns - row.entered_ns, 5'000'000);
}

TEST_F(CollectivesTest, live_it_is_told_twice_and_stored_once) {
  enter(0);
  RowLog live;
  ASSERT_TRUE(importer_->drain(live).ok());
  leave(0);
  ASSERT_TRUE(importer_->drain(live).ok());
  EXPECT_EQ(live.tables[TableId::kCollectives].size(), 2u);
  const auto again = RingImporter::open(ring_->path(), std::nullopt);
  EXPECT_EQ(again.status().code(), StatusCode::kExhausted);
  importer_.reset();
  importer_ = RingImporter::open(ring_->path(), std::nullopt).value();
  store();
  EXPECT_EQ(stored().size(), 1u);
}

TEST_F(CollectivesTest, one_that_stays_inside_is_stored_as_entered_and_then_as_left) {
  enter(0);
  enter(1);
  store();
  EXPECT_TRUE(stored().empty()) << "it may be left within its second";
  leave(1);
  clock_.advance(2 * kSecond);
  store();
  auto rows = stored();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].sequence, 1);
  EXPECT_EQ(rows[1].sequence, 0);
  EXPECT_EQ(rows[1].left_ns, 0);
  leave(0);
  store();
  rows = stored();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_GT(rows[1].left_ns, rows[1].entered_ns);
}

TEST_F(CollectivesTest, what_is_never_left_is_stored_at_the_end_though_its_ring_is_gone) {
  enter(0);
  EXPECT_TRUE(importer_->drain(*writer_).ok());
  importer_.reset();
  EXPECT_TRUE(writer_->seal().ok());
  const auto rows = stored();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].left_ns, 0);
  EXPECT_EQ(rows[0].where->line, 31);
}

TEST_F(CollectivesTest, the_end_of_a_call_whose_beginning_was_dropped_is_passed_over) {
  leave(3);
  store();
  EXPECT_TRUE(stored().empty());
}

TEST_F(CollectivesTest, a_second_group_of_the_same_name_is_another_group) {
  tell_group(R"({"name":"0","backend":"gloo","ranks":[0,1]})");
  enter(0);
  tell_group(R"({"name":"0","backend":"gloo","ranks":[0]})");
  enter(1);
  class Sink : public RowSink {
   public:
    void on_collective(const CollectiveRow& row) override { groups.push_back(row.group); }
    std::vector<const GroupInfo*> groups;
  } sink;
  ASSERT_TRUE(importer_->drain(sink).ok());
  ASSERT_EQ(sink.groups.size(), 2u);
  EXPECT_EQ(sink.groups[0]->ranks.size(), 2u);
  EXPECT_EQ(sink.groups[1]->ranks.size(), 1u);
}

TEST_F(CollectivesTest, replay_tells_calls_in_their_place_among_the_events) {
  tell_group(R"({"name":"0","backend":"gloo","ranks":[0,1]})");
  enter(0);
  leave(0);
  tell_group("{}");
  store();
  reader_ = RunReader::open(dir()).value();
  RowLog replayed;
  ASSERT_TRUE(reader_->replay(replayed).ok());
  ASSERT_EQ(replayed.all.size(), 3u);
  EXPECT_TRUE(replayed.all[1].starts_with("collectives: ")) << replayed.all[1];
}

}  // namespace
}  // namespace paramedic::store
