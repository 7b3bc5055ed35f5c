// Collectives through the C interface, seen from the reader's side of the ring.

#include "probe/collectives.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/test_folder.h"
#include "record/ring_reader.h"

namespace paramedic::probe {
namespace {

using record::Kind;
using record::Record;
using record::RecordType;

class CollectivesTest : public testing::Test {
 protected:
  CollectivesTest() {
    paramedic_options options{};
    options.struct_bytes = sizeof options;
    options.ring_bytes = 1 << 20;
    options.ring_directory = folder_.path().c_str();
    options.run_id = "test";
    options.plan = "";
    options.world_size = 2;
    probe_ = paramedic_probe_open(&options, nullptr, 0);
    const auto path = std::filesystem::directory_iterator(folder_.path())->path();
    reader_ = record::RingReader::open(path).value();
  }
  ~CollectivesTest() override {
    reader_.reset();
    paramedic_probe_close(probe_);
  }

  uint32_t define(Kind kind, const char* name, int64_t line = 0) {
    const int32_t id = paramedic_define(probe_, static_cast<uint8_t>(kind), 0,
                                        kind == Kind::kCallSite ? 1 : 0, &line, name);
    EXPECT_GE(id, 0) << name;
    return static_cast<uint32_t>(id);
  }
  paramedic_collective all_reduce() {
    paramedic_collective call{};
    call.group = define(Kind::kGroup, "0");
    call.operation = define(Kind::kOperation, "all_reduce");
    call.where = define(Kind::kCallSite, "main\ntrain.py", 31);
    call.peer = -1;
    call.bytes = 24;
    call.dtype = 1;
    call.ndim = 2;
    call.sizes[0] = 2;
    call.sizes[1] = 3;
    return call;
  }
  void read(const std::function<void(const Record&)>& on_record) {
    const auto read = reader_->read(on_record);
    EXPECT_TRUE(read.ok()) << read.status().to_string();
  }

  TemporaryFolder folder_;
  paramedic_probe* probe_ = nullptr;
  std::unique_ptr<record::RingReader> reader_;
};

TEST_F(CollectivesTest, a_call_is_recorded_when_it_is_entered_and_when_it_is_left) {
  const paramedic_collective call = all_reduce();
  EXPECT_EQ(paramedic_collective_enter(probe_, 4, 17, &call), 1);
  EXPECT_EQ(paramedic_collective_leave(probe_, 5, 17, call.group), 1);
  std::vector<RecordType> types;
  read([&](const Record& record) {
    types.push_back(record.type);
    if (record.type == RecordType::kCollectiveLeft) {
      EXPECT_EQ(record.left.group, call.group);
      EXPECT_EQ(record.left.number, 17);
      EXPECT_EQ(record.step, 5);
      return;
    }
    EXPECT_EQ(record.step, 4);
    EXPECT_EQ(record.collective.number, 17);
    EXPECT_EQ(record.collective.peer, -1);
    EXPECT_EQ(record.collective.bytes, 24u);
    EXPECT_EQ(record.sizes[0], 2);
    EXPECT_EQ(record.sizes[1], 3);
    const record::Definition& where = reader_->definitions()[record.collective.where];
    EXPECT_EQ(where.kind, Kind::kCallSite);
    EXPECT_EQ(where.name, "main\ntrain.py");
    EXPECT_EQ(where.sizes[0], 31);
  });
  EXPECT_EQ(types, (std::vector{RecordType::kCollectiveEntered, RecordType::kCollectiveLeft}));
}

TEST_F(CollectivesTest, a_call_that_cannot_be_is_dropped_and_counted) {
  const paramedic_collective good = all_reduce();
  const std::vector<std::function<void(paramedic_collective*)>> changes = {
      [&](paramedic_collective* call) { call->group = good.operation; },
      [&](paramedic_collective* call) { call->operation = 1000; },
      [&](paramedic_collective* call) { call->where = good.group; },
      [](paramedic_collective* call) { call->peer = -2; },
      [](paramedic_collective* call) { call->dtype = stats::kDTypeCount; },
      [](paramedic_collective* call) { call->ndim = 9; },
      [](paramedic_collective* call) { call->sizes[1] = -1; },
  };
  for (const auto& change : changes) {
    paramedic_collective call = good;
    change(&call);
    EXPECT_EQ(paramedic_collective_enter(probe_, 0, 0, &call), 0);
  }
  EXPECT_EQ(paramedic_collective_enter(probe_, 0, -1, &good), 0);
  EXPECT_EQ(paramedic_collective_leave(probe_, 0, 0, good.where), 0);
  EXPECT_EQ(paramedic_collective_enter(probe_, 0, 0, nullptr), 0);
  EXPECT_EQ(paramedic_dropped(probe_), changes.size() + 2);
  read([](const Record&) { ADD_FAILURE(); });
}

TEST_F(CollectivesTest, a_finished_probe_can_still_be_called) {
  const paramedic_collective call = all_reduce();
  paramedic_probe_finish(probe_);
  EXPECT_TRUE(reader_->state().closed);
  EXPECT_EQ(paramedic_collective_enter(probe_, 0, 0, &call), 0);
  EXPECT_EQ(paramedic_dropped(probe_), 1u);
}

TEST_F(CollectivesTest, a_name_of_a_collective_is_no_tensor_to_capture) {
  paramedic_tensor tensor{};
  tensor.id = define(Kind::kGroup, "0");
  EXPECT_EQ(paramedic_capture(probe_, 0, 0, &tensor, 1), 0);
}

TEST_F(CollectivesTest, groups_without_end_leave_room_for_the_names_of_tensors) {
  int32_t id = 0;
  for (uint32_t i = 0; i < kCollectiveNamesMax; i++)
    id = static_cast<int32_t>(define(Kind::kGroup, "g"));
  EXPECT_EQ(paramedic_define(probe_, static_cast<uint8_t>(Kind::kGroup), 0, 0, nullptr, "g"), -1);
  EXPECT_GT(define(Kind::kWeight, "net.0.weight"), static_cast<uint32_t>(id));
}

}  // namespace
}  // namespace paramedic::probe
