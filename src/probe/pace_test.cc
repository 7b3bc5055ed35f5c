#include <gtest/gtest.h>
#include <pthread.h>

#include <limits>
#include <string>
#include <vector>

#include "probe/fake_python.h"
#include "probe/probe.h"

namespace paramedic::probe {
namespace {

using Calls = std::vector<std::string>;

constexpr int64_t kLongNs = std::numeric_limits<int64_t>::max() / 2;

// A job between two reports, whose first beat was told.
class Pace : public ::testing::Test {
 protected:
  Pace() {
    python = FakePython();
    python.names = {{&told, "told"}, {&backward, "backward"}, {&wait, "wait"}};
    pace.on_beat = address(&told);
    pace.backward = address(&backward);
    pace.wait = address(&wait);
    pace.tensor_type = address(&tensor_type);
    pace.none = address(&python.none);
    pace.yes = address(&yes);
    pace.name_is_cpu = address(&name_is_cpu);
    pace.thread = static_cast<uint64_t>(pthread_self());
    pace.on = 1;
    pace.beats = 5;
    pace.report_ns = std::numeric_limits<int64_t>::max();
    python.items[&arguments] = {&tensor};
    python.types[&tensor] = &tensor_type;
    python.members[{&tensor, &name_is_cpu}] = &yes;
  }

  bool keeps_beat() {
    python.calls.clear();
    const int64_t before = pace.count;
    paramedic_pace_beat(&pace, nullptr, 3);
    return pace.count == before + 1 && python.calls.empty();
  }
  bool tells_beat() { return !keeps_beat() && python.calls == Calls{"told"}; }
  void* pass() { return paramedic_pace_backward(&pace, &arguments, nullptr); }

  paramedic_pace pace{};
  int told = 0, backward = 0, wait = 0, tensor_type = 0, yes = 0, no = 0, name_is_cpu = 0;
  int arguments = 0, tensor = 0;
};

TEST_F(Pace, a_beat_tells_work_from_waiting) {
  pace.beat_waited_ns = 1'000;
  pace.waited_ns = 3'000'001'000;
  pace.beat_ns = -4'000'000'000;  // before the clock began
  EXPECT_TRUE(keeps_beat());
  EXPECT_EQ(pace.wait_us[0], 3'000'000);
  EXPECT_GT(pace.self_us[0], 999'999);
  EXPECT_EQ(pace.beats, 6);
  EXPECT_EQ(pace.beat_waited_ns, pace.waited_ns);
  EXPECT_TRUE(keeps_beat());
  EXPECT_EQ(pace.wait_us[1], 0);
}

TEST_F(Pace, a_beat_that_has_to_be_told_goes_to_the_owner) {
  pace.beats = 0;
  EXPECT_TRUE(tells_beat());
  pace.beats = 5;
  pace.report_ns = 0;
  EXPECT_TRUE(tells_beat());
  pace.report_ns = std::numeric_limits<int64_t>::max();
  pace.count = PARAMEDIC_PACE_BEATS - 1;
  EXPECT_TRUE(tells_beat());
  pace.count = 0;
  pace.thread++;
  EXPECT_TRUE(tells_beat());
  pace.on = 0;
  EXPECT_FALSE(keeps_beat());
  EXPECT_EQ(python.calls, Calls{});
}

TEST_F(Pace, a_pass_waits_as_long_as_its_thread_does_not_run) {
  EXPECT_EQ(pass(), &python.answer);
  EXPECT_EQ(python.calls, Calls{"backward"});
  EXPECT_GT(pace.waited_ns, 0);  // of a short pass it is not asked what was computed
  EXPECT_EQ(pace.passes, 1);
  EXPECT_EQ(pace.in_backward, 0);
  pace.waited_ns = 0;
  pace.pass_cpu_ns = kLongNs;
  pass();
  EXPECT_LT(pace.pass_cpu_ns, kLongNs);
  EXPECT_EQ(pace.backward_cpu_ns, pace.pass_cpu_ns);
}

TEST_F(Pace, each_fourth_short_pass_asks_what_was_computed) {
  pace.pass_cpu_ns = -1;
  for (int i = 0; i < PARAMEDIC_PACE_SHORT_PASSES - 1; i++) pass();
  EXPECT_EQ(pace.pass_cpu_ns, -1);
  pass();
  EXPECT_GE(pace.pass_cpu_ns, 0);
}

TEST_F(Pace, passes_whose_waiting_is_not_known_are_not_counted) {
  const auto is_left_alone = [&] {
    python.calls.clear();
    return pass() == &python.answer && python.calls == Calls{"backward"} && pace.passes == 0;
  };
  python.members[{&tensor, &name_is_cpu}] = &no;
  EXPECT_TRUE(is_left_alone());
  python.members[{&tensor, &name_is_cpu}] = &yes;
  python.types[&tensor] = &no;
  EXPECT_TRUE(is_left_alone());
  python.types[&tensor] = &tensor_type;
  python.items[&arguments] = {};
  EXPECT_TRUE(is_left_alone());
  python.items[&arguments] = {&tensor};
  pace.in_backward = 1;
  EXPECT_TRUE(is_left_alone());
  pace.in_backward = 0;
  pace.thread++;
  EXPECT_TRUE(is_left_alone());
  EXPECT_EQ(pace.waited_ns, 0);
}

TEST_F(Pace, what_is_waited_for_is_timed_once) {
  EXPECT_EQ(paramedic_pace_wait(&pace, &arguments, nullptr), &python.answer);
  EXPECT_EQ(python.calls, Calls{"wait"});
  EXPECT_EQ(pace.waiting, 0);
  const int64_t waited_ns = pace.waited_ns;
  EXPECT_GT(waited_ns, 0);
  pace.waiting = 1;  // inside of another wait
  paramedic_pace_wait(&pace, &arguments, &no);
  EXPECT_EQ(python.calls, (Calls{"wait", "wait+"}));
  EXPECT_EQ(pace.waiting, 1);
  EXPECT_EQ(pace.waited_ns, waited_ns);
}

TEST_F(Pace, what_the_job_raises_is_passed_on) {
  python.raises_in = &backward;
  EXPECT_EQ(pass(), nullptr);
  EXPECT_EQ(python.error, &backward);
  EXPECT_EQ(pace.in_backward, 0);
  python.raises_in = &wait;
  EXPECT_EQ(paramedic_pace_wait(&pace, &arguments, nullptr), nullptr);
  EXPECT_EQ(python.error, &wait);
  EXPECT_EQ(pace.waiting, 0);
}

TEST_F(Pace, every_reference_is_given_back) {
  keeps_beat();
  pass();
  paramedic_pace_wait(&pace, &arguments, nullptr);
  EXPECT_EQ(python.references, 3);  // the answers
}

}  // namespace
}  // namespace paramedic::probe
