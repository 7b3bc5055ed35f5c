#include "store/perfetto_file.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "store/export.h"
#include "store/test_support.h"

namespace paramedic::store {
namespace {

constexpr int64_t kStartNs = 1'796'000'000'250'000'000;
constexpr int64_t kMs = 1'000'000;

class PerfettoTest : public testing::Test {
 protected:
  void write_run() {
    const auto writer =
        RunWriter::create(posix_file_system(), example_info(dir()), WriterOptions(), real_clock())
            .value();
    const std::string names[] = {"phase/data_ms", "phase/forward_ms", "step_ms"};
    const double values[] = {20, 30, 100};
    for (uint64_t i = 0; i < 3; ++i) {
      ScalarRow row;
      row.origin.ring_id = 9;
      row.origin.sequence = i;
      row.origin.step = 4;
      row.origin.time_ns = kStartNs + 500 * kMs;
      row.name = &names[i];
      row.value = values[i];
      writer->on_scalar(row);
    }
    const GroupInfo group{"0", "default_pg", "gloo", {0, 1}, 60};
    const CallSite site{"train.py", 41, "sync"};
    for (int32_t rank = 0; rank < 2; ++rank) {
      CollectiveRow row;
      row.origin.rank = rank;
      row.origin.ring_id = 20 + static_cast<uint64_t>(rank);
      row.origin.time_ns = kStartNs + 600 * kMs;
      row.group = &group;
      row.sequence = 7;
      row.operation = "all_reduce";
      row.sizes = {64, 10};
      row.where = &site;
      row.entered_ns = kStartNs + (550 + rank) * kMs;
      row.left_ns = kStartNs + 570 * kMs;
      writer->on_collective(row);
    }
    writer->on_metric({kStartNs + 100 * kMs, 0, "cpu_percent", 50});
    writer->on_finding({kStartNs + 700 * kMs, 1, "k",
                        R"({"id": "straggler", "message": "rank 1 is slow", "time": 1796000001})"});
    ASSERT_TRUE(writer->seal().ok());
  }
  [[nodiscard]] std::string dir() const { return folder_.path() + "/run"; }
  [[nodiscard]] std::string out() const { return folder_.path() + "/timeline.json"; }

  // The events whose `key` is `value`.
  static std::vector<Json> events(const Json& trace, const char* key, const Json& value) {
    std::vector<Json> found;
    for (const Json& event : trace["traceEvents"]) {
      if (event.contains(key) && event[key] == value) found.push_back(event);
    }
    return found;
  }

  TemporaryFolder folder_;
};

TEST_F(PerfettoTest, steps_phases_and_collectives_of_each_rank_stand_at_their_time) {
  write_run();
  ASSERT_TRUE(export_run(dir(), "perfetto", out()).ok());
  const auto trace = parse_json(read_file(out()), "the trace");
  ASSERT_TRUE(trace.ok()) << trace.status().message();
  const auto step = events(*trace, "name", "step 4");
  ASSERT_EQ(step.size(), 1U);
  EXPECT_EQ(step[0]["ts"], 400'000.0);
  EXPECT_EQ(step[0]["dur"], 100'000.0);
  const auto forward = events(*trace, "name", "forward");
  ASSERT_EQ(forward.size(), 1U);
  EXPECT_EQ(forward[0]["ts"], 420'000.0);
  const auto calls = events(*trace, "name", "all_reduce");
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[0]["bind_id"], calls[1]["bind_id"]);
  EXPECT_NE(calls[0]["pid"], calls[1]["pid"]);
  EXPECT_EQ(calls[1]["args"]["where"], "train.py:41");
  EXPECT_EQ(events(*trace, "ph", "C").size(), 1U);
  const auto finding = events(*trace, "name", "straggler: rank 1 is slow");
  ASSERT_EQ(finding.size(), 1U);
  EXPECT_EQ(finding[0]["ts"], 750'000.0);
}

TEST_F(PerfettoTest, a_file_that_exists_is_not_overwritten) {
  write_run();
  ASSERT_TRUE(export_run(dir(), "perfetto", out()).ok());
  const std::string first = read_file(out());
  EXPECT_FALSE(export_run(dir(), "perfetto", out()).ok());
  EXPECT_EQ(read_file(out()), first);
}

}  // namespace
}  // namespace paramedic::store
