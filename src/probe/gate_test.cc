#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "probe/fake_python.h"
#include "probe/probe.h"

namespace paramedic::probe {
namespace {

// A gate that has seen a loop with one optimizer.
class Gate : public ::testing::Test {
 protected:
  Gate() {
    python = FakePython();
    python.any_attribute = &attribute;
    uint64_t* functions[] = {&gate.on_mark, &gate.on_change, &gate.on_step, &gate.on_clear,
                             &gate.on_level};
    const char* names[] = {"mark", "change", "step", "clear", "level"};
    for (size_t i = 0; i < 5; i++) {
      *functions[i] = address(&objects[i]);
      python.names[&objects[i]] = names[i];
    }
    gate.none = address(&python.none);
    gate.thread = static_cast<uint64_t>(pthread_self());
    gate.loop = address(&loop);
    gate.module_count = python.modules;
    gate.look_at = 100;
    gate.may_skip = 1;
    gate.owner_count = 1;
    gate.owners[0].object = address(&optimizer);
    gate.clearer_count = 1;
    gate.clearers[0] = {address(&optimizer), 1};
  }

  std::vector<std::string> calls() {
    std::vector<std::string> made;
    made.swap(python.calls);
    return made;
  }
  void mark() { EXPECT_EQ(paramedic_gate_mark(&gate, &loop), &python.none); }
  void backward() { EXPECT_EQ(paramedic_gate_backward(&gate, nullptr), &python.answer); }
  void step(void* which) {
    void* const arguments[] = {which, nullptr, nullptr};
    EXPECT_EQ(paramedic_gate_step(&gate, arguments, 3), &python.none);
  }
  void clear(void* which) { EXPECT_EQ(paramedic_gate_cleared(&gate, which), &python.none); }

  paramedic_gate gate{};
  std::array<int, 8> objects{};
  int loop = 0, optimizer = 0, other = 0, attribute = 0;
};

using Calls = std::vector<std::string>;

TEST_F(Gate, an_iteration_like_the_one_before_it_calls_nobody) {
  EXPECT_EQ(paramedic_native_works(), 1);
  for (int i = 1; i <= 3; i++) {
    mark();
    clear(&optimizer);
    backward();
    step(&optimizer);
    EXPECT_EQ(gate.marks, i);
    EXPECT_EQ(gate.owners[0].steps_at_mark, i - 1);
    EXPECT_EQ(gate.skipped, 1);
    EXPECT_EQ(calls(), (Calls{"level"}));
  }
}

TEST_F(Gate, what_is_not_expected_goes_to_python) {
  EXPECT_EQ(paramedic_gate_mark(&gate, &other), &python.none);
  EXPECT_EQ(calls(), (Calls{"mark+"}));
  python.modules++;
  mark();
  EXPECT_EQ(calls(), (Calls{"mark+"}));
  gate.module_count = python.modules;
  gate.look_at = gate.marks + 1;
  mark();
  EXPECT_EQ(calls(), (Calls{"mark+"}));
  clear(&other);
  step(&other);
  EXPECT_EQ(calls(), (Calls{"clear+", "change", "step+"}));
}

TEST_F(Gate, gradients_that_are_there_are_looked_at_before_the_first_change) {
  mark();
  backward();
  step(&optimizer);
  EXPECT_EQ(calls(), (Calls{"change", "level"}));
  EXPECT_EQ(gate.skipped, 0);
  // Cleared again is not cleared at the first change of this iteration.
  clear(&optimizer);
  mark();
  EXPECT_EQ(gate.changed, 0);
  backward();
  EXPECT_EQ(gate.owners[0].had_none, 1);
  EXPECT_EQ(gate.skipped, 1);
  gate.zeroed = 1;
  EXPECT_EQ(calls(), (Calls{"level"}));
  backward();
  EXPECT_EQ(calls(), (Calls{"change", "level"}));
}

TEST_F(Gate, an_idle_optimizer_is_followed_until_it_steps) {
  gate.owners[0].idle = 1;
  mark();
  backward();
  EXPECT_EQ(gate.skipped, 1);
  EXPECT_EQ(gate.owners[0].had_none, 0);
  step(&optimizer);
  mark();
  backward();
  EXPECT_EQ(gate.skipped, 0);
}

TEST_F(Gate, bytes_are_kept_when_their_ends_have_moved) {
  std::array<char, 200> live{}, kept{};
  live.fill('a');
  gate.piece_count = 1;
  gate.pieces[0] = {address(live.data()), address(kept.data()), 200};
  mark();
  EXPECT_EQ(kept, live);
  live[100] = 'b';  // a twister's words never change alone
  mark();
  EXPECT_EQ(kept[100], 'a');
  live[199] = 'c';
  mark();
  EXPECT_EQ(kept, live);
}

TEST_F(Gate, a_value_is_held_as_long_as_it_is_kept) {
  gate.value_count = 1;
  for (int i = 0; i < 3; i++) mark();
  EXPECT_EQ(gate.values[0].kept, address(&attribute));
  EXPECT_EQ(python.references, 1 + 3);  // and three answers
}

TEST_F(Gate, other_threads_are_none_of_its_business) {
  gate.thread = 1;
  EXPECT_EQ(paramedic_gate_mark(&gate, &loop), &python.none);
  EXPECT_EQ(calls(), (Calls{"mark+"}));  // whether to adopt it is asked
  EXPECT_EQ(gate.marks, 0);
  clear(&optimizer);
  backward();
  step(&optimizer);
  EXPECT_EQ(calls(), (Calls{"level"}));
  EXPECT_EQ(gate.owners[0].steps, 0);
}

TEST_F(Gate, an_exception_of_python_is_handed_on) {
  python.raises = true;
  EXPECT_EQ(paramedic_gate_mark(&gate, &other), nullptr);
  EXPECT_EQ(paramedic_gate_backward(&gate, nullptr), nullptr);
  EXPECT_EQ(paramedic_gate_cleared(&gate, &other), nullptr);
}

}  // namespace
}  // namespace paramedic::probe
