// The C interface, as the adapter uses it, seen from the reader's side of the ring.

#include "probe/probe.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/test_folder.h"
#include "probe/capture.h"
#include "record/ring_reader.h"

namespace paramedic::probe {
namespace {

using record::Kind;
using record::Mode;
using record::Record;
using record::RecordType;

constexpr uint8_t kTrain = static_cast<uint8_t>(Mode::kTrain);
constexpr uint8_t kWeight = static_cast<uint8_t>(Kind::kWeight);
constexpr uint8_t kActivation = static_cast<uint8_t>(Kind::kActivation);
constexpr uint8_t kScalar = static_cast<uint8_t>(Kind::kScalar);
constexpr uint8_t kFloat32 = static_cast<uint8_t>(stats::DType::kFloat32);

class ProbeTest : public testing::Test {
 protected:
  ~ProbeTest() override {
    reader_.reset();
    paramedic_probe_close(probe_);
  }

  [[nodiscard]] paramedic_options options(const char* plan) const {
    paramedic_options options{};
    options.struct_bytes = sizeof options;
    options.ring_bytes = 1 << 20;
    options.ring_directory = folder_.c_str();
    options.run_id = "test";
    options.plan = plan;
    options.world_size = 1;
    return options;
  }
  void open(const char* plan) {
    const paramedic_options made = options(plan);
    char error[256] = "";
    probe_ = paramedic_probe_open(&made, error, sizeof error);
    ASSERT_NE(probe_, nullptr) << error;
    auto reader = record::RingReader::open(std::filesystem::directory_iterator(folder_)->path());
    ASSERT_TRUE(reader.ok()) << reader.status().to_string();
    reader_ = std::move(reader).value();
  }
  std::string error_of(const paramedic_options& made) {
    char error[256] = "";
    EXPECT_EQ(paramedic_probe_open(&made, error, sizeof error), nullptr);
    return error;
  }

  uint32_t define(uint8_t kind, const char* name) {
    const int64_t sizes[] = {4, 3};
    const int32_t id = paramedic_define(probe_, kind, kFloat32, 2, sizes, name);
    EXPECT_GE(id, 0);
    return static_cast<uint32_t>(id);
  }
  // The 4 x 3 tensor `values_`.
  [[nodiscard]] paramedic_tensor tensor(uint32_t id) const {
    paramedic_tensor tensor{};
    tensor.data = reinterpret_cast<uint64_t>(values_);
    tensor.id = id;
    tensor.dtype = kFloat32;
    tensor.ndim = 2;
    tensor.unit_dim = 255;
    tensor.sizes[0] = 4;
    tensor.sizes[1] = 3;
    tensor.strides[0] = 3;
    tensor.strides[1] = 1;
    return tensor;
  }
  int32_t capture(int64_t step, const paramedic_tensor& tensor) {
    paramedic_due(probe_, kTrain, step);
    return paramedic_capture(probe_, kTrain, step, &tensor, 1);
  }
  // Everything that was recorded since the last call.
  uint64_t read(const std::function<void(const Record&)>& on_record) {
    const auto records = reader_->read(on_record);
    EXPECT_TRUE(records.ok()) << records.status().to_string();
    return records.ok() ? records.value() : 0;
  }

  const TemporaryFolder temporary_;
  const std::string& folder_ = temporary_.path();
  paramedic_probe* probe_ = nullptr;
  std::unique_ptr<record::RingReader> reader_;
  float values_[12] = {1, 2, 3, 4, 5, 6, -7, 8, 0, 10, 11, 12};
};

TEST_F(ProbeTest, a_tensor_that_is_due_is_recorded_with_its_statistics) {
  open("");
  const uint32_t id = define(kWeight, "net.0.weight");
  EXPECT_EQ(paramedic_due(probe_, kTrain, 0),
            PARAMEDIC_DUE(0) | PARAMEDIC_DUE(1) | PARAMEDIC_DUE(2));
  EXPECT_EQ(capture(0, tensor(id)), 1);
  EXPECT_EQ(capture(1, tensor(id)), 0) << "not due";
  EXPECT_EQ(read([&](const Record& record) {
              ASSERT_EQ(record.stats.size(), 1u);
              EXPECT_EQ(record.step, 0);
              EXPECT_EQ(record.stats[0].id, id);
              EXPECT_EQ(record.stats[0].stats.count, 12u);
              EXPECT_EQ(record.stats[0].stats.zero, 1u);
              EXPECT_EQ(record.stats[0].stats.min, -7);
              EXPECT_EQ(record.stats[0].stats.max, 12);
              EXPECT_EQ(record.stats[0].stats.sum, 55);
              EXPECT_EQ(record.stats[0].units, 0u);
            }),
            1u);
  EXPECT_EQ(reader_->definitions()[id].name, "net.0.weight");
}

TEST_F(ProbeTest, many_tensors_are_split_into_records_that_fit) {
  open("collection w kind=weight interval=1");
  const uint32_t id = define(kWeight, "w");
  const std::vector<paramedic_tensor> tensors(5000, tensor(id));
  paramedic_due(probe_, kTrain, 0);
  EXPECT_EQ(paramedic_capture(probe_, kTrain, 0, tensors.data(), 5000), 5000);
  uint64_t items = 0;
  EXPECT_GT(read([&](const Record& record) { items += record.stats.size(); }), 1u);
  EXPECT_EQ(items, 5000u);
}

TEST_F(ProbeTest, statistics_and_histogram_are_those_of_the_tensor_divided) {
  open("collection w kind=weight interval=1 what=histogram");
  const uint32_t id = define(kWeight, "w");
  paramedic_tensor scaled = tensor(id);
  scaled.divisor = 4;
  EXPECT_EQ(capture(0, scaled), 1);
  std::map<uint32_t, uint64_t> bins;
  read([&](const Record& record) {
    if (record.type == RecordType::kStats) {
      EXPECT_EQ(record.stats[0].stats.max, 3);
      EXPECT_EQ(record.stats[0].stats.sum, 55.0 / 4);
    }
    for (const record::HistogramBin& bin : record.bins) bins[bin.bin] = bin.elements;
  });
  // 1/4 | 2/4 3/4 | 4/4 .. 6/4 | 8/4 .. 12/4 | 0 | -7/4
  const std::map<uint32_t, uint64_t> expected = {{0, 1},   {126, 1}, {127, 2},
                                                 {128, 3}, {129, 4}, {256 + 128, 1}};
  EXPECT_EQ(bins, expected);
}

TEST_F(ProbeTest, units_are_dead_or_frozen_over_a_window_of_batches_that_restarts) {
  // GIVEN an activation whose unit 0 is always zero and whose unit 1 lies outside [-1, 1]
  open("collection a kind=activation interval=1 what=units");
  const uint32_t id = define(kActivation, "net.1");
  for (int row = 0; row < 4; row++) {
    values_[row * 3] = 0;
    values_[row * 3 + 1] = 5;
    values_[row * 3 + 2] = 0.5F;
  }
  paramedic_tensor batch = tensor(id);
  batch.unit_dim = 1;
  batch.low = -1;
  batch.high = 1;
  std::vector<record::StatsItem> items;
  for (int64_t step = 0; step <= kUnitWindowBatches + 1; step++) {
    // WHEN unit 0 comes alive in the last batch of the first window
    values_[0] = step == kUnitWindowBatches - 1 ? 1.0F : 0.0F;
    ASSERT_EQ(capture(step, batch), 1);
    read([&](const Record& record) { items.push_back(record.stats[0]); });
  }
  // THEN it is dead up to there, and again in the next window
  ASSERT_EQ(items.size(), kUnitWindowBatches + 2);
  EXPECT_EQ(items[0].units, 3u);
  EXPECT_EQ(items[0].units_dead, 1u);
  EXPECT_EQ(items[0].units_frozen, 1u);
  EXPECT_EQ(items[0].unit_batches, 1u);
  EXPECT_EQ(items[0].outside, 4u);
  EXPECT_EQ(items[kUnitWindowBatches - 2].units_dead, 1u);
  EXPECT_EQ(items[kUnitWindowBatches - 1].units_dead, 0u);
  EXPECT_EQ(items[kUnitWindowBatches - 1].unit_batches, kUnitWindowBatches);
  EXPECT_EQ(items[kUnitWindowBatches].unit_batches, 1u);
  EXPECT_EQ(items[kUnitWindowBatches].units_dead, 1u);
}

TEST_F(ProbeTest, raw_values_come_in_pieces_and_in_row_major_order) {
  open("collection w kind=weight interval=1 what=raw");
  // GIVEN a transposed view that needs several records
  constexpr int64_t kRows = 300;
  constexpr int64_t kColumns = 400;
  std::vector<float> memory(kRows * kColumns);
  for (size_t i = 0; i < memory.size(); i++) memory[i] = static_cast<float>(i);
  paramedic_tensor transposed = tensor(define(kWeight, "w"));
  transposed.data = reinterpret_cast<uint64_t>(memory.data());
  transposed.sizes[0] = kColumns;
  transposed.sizes[1] = kRows;
  transposed.strides[0] = 1;
  transposed.strides[1] = kColumns;
  // WHEN it is captured
  EXPECT_EQ(capture(0, transposed), 1);
  // THEN the pieces put together are the transposed values
  std::vector<float> values(memory.size());
  uint64_t next = 0;
  EXPECT_GT(read([&](const Record& record) {
              EXPECT_EQ(record.total_bytes, memory.size() * sizeof(float));
              EXPECT_EQ(record.offset_bytes, next);
              next += record.piece.size();
              std::memcpy(reinterpret_cast<std::byte*>(values.data()) + record.offset_bytes,
                          record.piece.data(), record.piece.size());
            }),
            1u);
  EXPECT_EQ(next, memory.size() * sizeof(float));
  for (int64_t column = 0; column < kColumns; column++) {
    for (int64_t row = 0; row < kRows; row++) {
      ASSERT_EQ(values[static_cast<size_t>(column * kRows + row)],
                memory[static_cast<size_t>(row * kColumns + column)]);
    }
  }
}

TEST_F(ProbeTest, a_raw_tensor_larger_than_the_room_is_dropped_as_a_whole) {
  open("collection w kind=weight interval=1 what=raw");
  std::vector<float> memory(1 << 20);
  paramedic_tensor large = tensor(define(kWeight, "w"));
  large.data = reinterpret_cast<uint64_t>(memory.data());
  large.ndim = 1;
  large.sizes[0] = 1 << 20;
  large.strides[0] = 1;
  EXPECT_EQ(capture(0, large), 0);
  EXPECT_EQ(read([](const Record&) {}), 0u);
  EXPECT_EQ(paramedic_dropped(probe_), 1u);
}

TEST_F(ProbeTest, shape_and_product_are_recorded_on_request) {
  open("collection w kind=weight interval=1 what=shape,prod");
  values_[8] = 1;
  const uint32_t id = define(kWeight, "a \"b\"\n");
  EXPECT_EQ(capture(0, tensor(id)), 1);
  int found = 0;
  read([&](const Record& record) {
    if (record.type == RecordType::kEvent) {
      EXPECT_EQ(record.event_kind, "shape");
      EXPECT_EQ(record.event_json, R"({"tensor": "a \"b\"\u000a", "sizes": [4, 3]})");
      found++;
    }
    for (const record::ScalarItem& scalar : record.scalars) {
      EXPECT_EQ(reader_->definitions()[scalar.id].name, "prod/a \"b\"\n");
      EXPECT_EQ(scalar.value, -53222400.0);
      found++;
    }
  });
  EXPECT_EQ(found, 2);
}

TEST_F(ProbeTest, scalars_and_events_need_no_plan) {
  open("");
  const int32_t loss = paramedic_define(probe_, kScalar, 99, 99, nullptr, "loss/train.py:3");
  const int64_t steps[] = {3, 3, 3, 3};
  const int32_t ids[] = {loss, 77, -1, loss};
  const double values[] = {1.5, 2, 3, std::numeric_limits<double>::quiet_NaN()};
  EXPECT_EQ(paramedic_scalars_of_steps(probe_, kTrain, steps, ids, values, 4), 2)
      << "unknown ids are left out";
  EXPECT_EQ(paramedic_event(probe_, kTrain, -1, "attached", "{}"), 1);
  EXPECT_EQ(paramedic_event(probe_, kTrain, -1, "", "{}"), 0);
  EXPECT_EQ(paramedic_event(probe_, kTrain, -1, std::string(65, 'x').c_str(), "{}"), 0);
  EXPECT_EQ(paramedic_event(probe_, kTrain, -1, "x", std::string(300'000, 'x').c_str()), 0);
  EXPECT_EQ(read([&](const Record& record) {
              if (record.type != RecordType::kScalars) return;
              ASSERT_EQ(record.scalars.size(), 2u);
              EXPECT_EQ(record.scalars[0].value, 1.5);
              EXPECT_TRUE(std::isnan(record.scalars[1].value));
            }),
            2u);
}

TEST_F(ProbeTest, one_number_of_any_type_is_read_and_divided) {
  open("");
  const int32_t id = paramedic_define(probe_, kScalar, 0, 0, nullptr, "loss");
  const auto read_as = [&](const void* data, stats::DType dtype, double divisor) {
    return paramedic_scalar_at(probe_, kTrain, 0, id, reinterpret_cast<uint64_t>(data),
                               static_cast<uint8_t>(dtype), divisor);
  };
  const double float64 = 2.5;
  const uint16_t float16 = 0x3e00;   // 1.5
  const uint16_t bfloat16 = 0xff80;  // -Inf
  const int64_t int64 = -12;
  const bool truth = true;
  const float nan = std::nanf("");
  EXPECT_EQ(read_as(&float64, stats::DType::kFloat64, 0), 2.5);
  EXPECT_EQ(read_as(&float16, stats::DType::kFloat16, 0.5), 3);
  EXPECT_EQ(read_as(&bfloat16, stats::DType::kBfloat16, 1), -INFINITY);
  EXPECT_EQ(read_as(&int64, stats::DType::kInt64, 1), -12);
  EXPECT_EQ(read_as(&truth, stats::DType::kBool, 1), 1);
  EXPECT_TRUE(std::isnan(read_as(&nan, stats::DType::kFloat32, 1)));
  EXPECT_TRUE(std::isnan(read_as(nullptr, stats::DType::kFloat32, 1)));
  EXPECT_EQ(read([](const Record&) {}), 6u);
}

TEST_F(ProbeTest, tensors_that_cannot_be_are_left_out) {
  open("collection w kind=weight interval=1 what=histogram,raw,units,shape,prod");
  const uint32_t id = define(kWeight, "w");
  std::vector<paramedic_tensor> wrong(8, tensor(id));
  wrong[0].id = 12345;
  wrong[1].dtype = 15;
  wrong[2].ndim = 9;
  wrong[3].sizes[0] = -1;
  wrong[4].sizes[0] = std::numeric_limits<int64_t>::max();
  wrong[5].data = 0;
  wrong[6].divisor = std::numeric_limits<double>::quiet_NaN();
  wrong[7].divisor = -1;
  paramedic_due(probe_, kTrain, 0);
  EXPECT_EQ(paramedic_capture(probe_, kTrain, 0, wrong.data(), 8), 0);
  EXPECT_EQ(paramedic_capture(probe_, kTrain, 0, nullptr, 3), 0);
  EXPECT_EQ(read([](const Record&) {}), 0u);
  EXPECT_EQ(paramedic_define(probe_, 200, kFloat32, 0, nullptr, "x"), -1);
  EXPECT_EQ(paramedic_define(probe_, kWeight, 200, 0, nullptr, "x"), -1);
  EXPECT_EQ(paramedic_define(probe_, kWeight, kFloat32, 9, wrong[0].sizes, "x"), -1);
  EXPECT_EQ(paramedic_define(probe_, kWeight, kFloat32, 1, nullptr, "x"), -1);
  EXPECT_EQ(paramedic_define(probe_, kWeight, kFloat32, 0, nullptr, nullptr), -1);
  EXPECT_STREQ(paramedic_probe_error(probe_), "") << "the probe goes on";
}

TEST_F(ProbeTest, an_empty_tensor_is_recorded_as_empty) {
  open("collection w kind=weight interval=1 what=histogram,raw,units");
  paramedic_tensor empty = tensor(define(kWeight, "w"));
  empty.data = 0;
  empty.sizes[0] = 0;
  empty.unit_dim = 1;
  EXPECT_EQ(capture(0, empty), 1);
  EXPECT_EQ(read([](const Record& record) {
              if (record.type == RecordType::kStats) {
                EXPECT_EQ(record.stats[0].stats.count, 0u);
              }
            }),
            3u);
}

TEST_F(ProbeTest, a_forked_child_is_off_and_says_so) {
  open("");
  const uint32_t id = define(kWeight, "w");
  const pid_t child = ::fork();
  if (child == 0) {
    const bool off = capture(0, tensor(id)) == 0 && paramedic_due(probe_, kTrain, 0) == 0 &&
                     paramedic_event(probe_, kTrain, 0, "x", "{}") == 0 &&
                     std::strstr(paramedic_probe_error(probe_), "fork") != nullptr;
    paramedic_probe_close(probe_);
    ::_exit(off ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(reader_->state().closed);
  EXPECT_EQ(capture(0, tensor(id)), 1);
  EXPECT_EQ(read([](const Record&) {}), 1u);
}

TEST_F(ProbeTest, all_functions_accept_no_probe) {
  EXPECT_EQ(paramedic_probe_version(), PARAMEDIC_PROBE_VERSION);
  EXPECT_EQ(paramedic_define(nullptr, kWeight, kFloat32, 0, nullptr, "x"), -1);
  EXPECT_EQ(paramedic_due(nullptr, kTrain, 0), 0u);
  EXPECT_EQ(paramedic_capture(nullptr, kTrain, 0, nullptr, 0), 0);
  EXPECT_EQ(paramedic_scalars_of_steps(nullptr, kTrain, nullptr, nullptr, nullptr, 0), 0);
  EXPECT_TRUE(std::isnan(paramedic_scalar_at(nullptr, kTrain, 0, 0, 0, 0, 1)));
  EXPECT_EQ(paramedic_event(nullptr, kTrain, 0, "x", "{}"), 0);
  paramedic_step_done(nullptr, 0, 1, 1, 0);
  EXPECT_EQ(paramedic_overhead_percent(nullptr), 0);
  EXPECT_EQ(paramedic_dropped(nullptr), 0u);
  EXPECT_STRNE(paramedic_probe_error(nullptr), "");
  paramedic_probe_close(nullptr);
}

TEST_F(ProbeTest, options_that_cannot_be_say_why) {
  paramedic_options wrong = options("collection x");
  EXPECT_NE(error_of(wrong).find("line 1"), std::string::npos);
  wrong = options("");
  wrong.struct_bytes = 3;
  EXPECT_NE(error_of(wrong).find("version"), std::string::npos);
  wrong = options("");
  wrong.ring_directory = "/nowhere";
  EXPECT_NE(error_of(wrong).find("/nowhere"), std::string::npos);
  wrong = options("");
  wrong.overhead_budget = -1;
  EXPECT_NE(error_of(wrong).find("overhead_budget"), std::string::npos);
  wrong = options("");
  wrong.run_id = nullptr;
  EXPECT_NE(error_of(wrong), "");
  EXPECT_EQ(paramedic_probe_open(nullptr, nullptr, 0), nullptr);
}

TEST_F(ProbeTest, scalars_of_several_steps_are_a_record_for_each) {
  open("");
  const int32_t loss = paramedic_define(probe_, kScalar, 0, 0, nullptr, "loss/train.py:3");
  const int64_t steps[] = {3, 3, 4};
  const int32_t ids[] = {loss, loss, loss};
  const double values[] = {1, 2, 3};
  EXPECT_EQ(paramedic_scalars_of_steps(probe_, kTrain, steps, ids, values, 3), 3);
  EXPECT_EQ(paramedic_scalars_of_steps(probe_, kTrain, steps, ids, values, 0), 0);
  std::vector<std::pair<int64_t, double>> found;
  EXPECT_EQ(read([&](const Record& record) {
              for (const record::ScalarItem& scalar : record.scalars) {
                found.emplace_back(record.step, scalar.value);
              }
            }),
            2u);
  EXPECT_EQ(found, (std::vector<std::pair<int64_t, double>>{{3, 1}, {3, 2}, {4, 3}}));
}

TEST_F(ProbeTest, what_is_due_next_is_known_ahead) {
  open("collection w kind=weight interval=10");
  EXPECT_EQ(paramedic_due(probe_, kTrain, 0), 1u << kWeight);
  EXPECT_EQ(paramedic_next_due(probe_, kTrain, 0), 10);
  EXPECT_EQ(paramedic_next_due(nullptr, kTrain, 0), std::numeric_limits<int64_t>::max());
}

TEST_F(ProbeTest, the_measured_cost_is_in_the_header) {
  open("");
  paramedic_step_done(probe_, 4, 1'000'000, 20'000, 0);
  EXPECT_EQ(paramedic_overhead_percent(probe_), 2);
  EXPECT_EQ(reader_->state().overhead_ppm, 20'000u);
  EXPECT_EQ(reader_->state().last_step, 4);
}

TEST_F(ProbeTest, threads_may_call_everything_at_once) {
  open("collection w kind=weight interval=1");
  const uint32_t id = define(kWeight, "w");
  const auto work = [&] {
    for (int64_t step = 0; step < 300; step++) {
      capture(step, tensor(id));
      paramedic_define(probe_, kScalar, 0, 0, nullptr, "x");
      paramedic_event(probe_, kTrain, step, "x", "{}");
      paramedic_step_done(probe_, step, 1000, 10, 1);
    }
  };
  std::thread one(work);
  std::thread two(work);
  one.join();
  two.join();
  EXPECT_STREQ(paramedic_probe_error(probe_), "");
  const uint64_t records = read([](const Record&) {});
  EXPECT_EQ(records + paramedic_dropped(probe_), reader_->state().next_sequence);
}

}  // namespace
}  // namespace paramedic::probe
