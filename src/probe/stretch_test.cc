#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/test_folder.h"
#include "probe/fake_python.h"
#include "probe/probe.h"

namespace paramedic::probe {
namespace {

using Calls = std::vector<std::string>;

// A loop with one line of `backward()` and one optimizer, whose steps go the short way.
class Stretch : public ::testing::Test {
 protected:
  Stretch() {
    python = FakePython();
    python.names = {{&usual, "usual"},
                    {&first, "first"},
                    {&keep, "keep"},
                    {&reference, "weight"},
                    {&due, "due"}};
    tell_functions_and_names();
    tell_the_job();
    stretch.on = 1;
    stretch.step = 7;
    stretch.last_step = stretch.ask_step = 100;
    stretch.end_ns = stretch.tick_ns = std::numeric_limits<int64_t>::max();
    stretch.thread = static_cast<uint64_t>(pthread_self());
  }

  void tell_functions_and_names() {
    stretch.on_step = address(&usual);
    stretch.on_due = address(&due);
    stretch.numbers = address(&numbers);
    stretch.session = address(&session);
    stretch.none = address(&python.none);
    stretch.yes = address(&yes);
    stretch.no = address(&no);
    uint64_t* attributes[] = {&stretch.name_step,   &stretch.name_code,   &stretch.name_place,
                              &stretch.name_dtype,  &stretch.name_is_cpu, &stretch.name_data_ptr,
                              &stretch.name_grad,   &stretch.name_groups, &stretch.name_rate,
                              &stretch.tensor_type, &stretch.float32};
    for (size_t i = 0; i < std::size(attributes); i++) *attributes[i] = address(&names[i]);
  }

  void tell_the_job() {
    stretch.line_count = 1;
    stretch.lines[0] = {address(&code), 40, 3, 0};
    python.members[{&frame, &names[1]}] = &code;
    python.members[{&frame, &names[2]}] = &place;
    python.integers[&place] = 40;
    tell_tensor(&loss_tensor, &loss);
    python.types[&loss_tensor] = &names[9];
    python.items[&pass] = {&python.none};
    stretch.forget_steps = 20;
    stretch.optimizer_count = 1;
    known.optimizer = address(&optimizer);
    known.parameter = address(&reference);
    known.rate_count = 1;
    stretch.rates[0] = {address(&float_type), 0.1, 4};
    python.members[{&optimizer, &names[7]}] = &groups;
    python.items[&groups] = {&group};
    python.members[{&group, &names[8]}] = &rate;
    python.types[&rate] = &float_type;
    python.floats[&rate] = 0.1;
    python.items[&only_self] = {&optimizer};
    python.answers[&reference] = &weight;
    python.members[{&weight, &names[6]}] = &gradient_tensor;
    tell_tensor(&gradient_tensor, gradient.data());
  }

  void tell_tensor(void* tensor, const void* values) {
    python.members[{tensor, &names[3]}] = &names[10];
    python.members[{tensor, &names[4]}] = &yes;
    int* where = &addresses[python.integers.size() % addresses.size()];
    python.members[{tensor, &names[5]}] = where;
    python.integers[where] = static_cast<long long>(address(values));
  }

  bool keeps_loss() {
    void* const arguments[] = {&loss_tensor, &pass, &frame};
    void* answer = paramedic_stretch_loss(&stretch, arguments, 3);
    return answer == &yes;
  }
  // Whether the step goes the short way; the usual one answers nothing else than Python's does.
  bool takes_step() { return takes_step_of(&optimizer); }
  bool takes_step_of(void* stepping) {
    void* const arguments[] = {stepping, &only_self, &no_names};
    python.calls.clear();
    return paramedic_stretch_step(&stretch, arguments, 3) == &python.none;
  }

  paramedic_stretch stretch{};
  paramedic_stretch_optimizer& known = stretch.optimizers[0];
  paramedic_numbers numbers{};
  std::array<int, 16> names{};
  std::array<int, 16> addresses{};
  std::array<float, 6> gradient{1, 2, 3, 4, 5, 6};
  float loss = 0.5f;
  int due = 0;
  int usual = 0, first = 0, keep = 0, reference = 0, session = 0, optimizer = 0, yes = 0, no = 0;
  int code = 0, place = 0, frame = 0, loss_tensor = 0, pass = 0, groups = 0, group = 0, rate = 0;
  int float_type = 0, only_self = 0, no_names = 0, weight = 0, gradient_tensor = 0;
};

TEST_F(Stretch, a_step_keeps_its_loss_and_is_counted) {
  for (int64_t i = 0; i < 3; i++) {
    EXPECT_TRUE(keeps_loss());
    EXPECT_TRUE(takes_step());
    EXPECT_EQ(numbers.count, i + 1);
    EXPECT_EQ(numbers.steps[i], 7 + i);
    EXPECT_EQ(numbers.ids[i], 3);
    EXPECT_EQ(numbers.values[i], 0.5);
    EXPECT_EQ(python.integers[&python.made], 8 + i);
  }
  EXPECT_EQ(stretch.steps, 3);
  const void* step = python.members[std::pair<void*, void*>(&session, names.data())];
  EXPECT_EQ(step, &python.made);
}

TEST_F(Stretch, every_reference_is_given_back) {
  keeps_loss();
  takes_step();
  EXPECT_EQ(python.references, 2);  // the two answers
}

TEST_F(Stretch, a_loss_that_is_not_as_expected_is_left_to_python) {
  loss = std::nanf("");
  EXPECT_FALSE(keeps_loss());
  loss = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(keeps_loss());
  loss = 1.0f;
  EXPECT_TRUE(keeps_loss());
  python.integers[&place] = 41;  // another line
  EXPECT_FALSE(keeps_loss());
  python.integers[&place] = 40;
  python.items[&pass] = {&weight};  // a gradient is given
  EXPECT_FALSE(keeps_loss());
  python.items[&pass] = {};
  EXPECT_FALSE(keeps_loss());
  python.items[&pass] = {&python.none};
  python.types[&loss_tensor] = &float_type;
  EXPECT_FALSE(keeps_loss());
  EXPECT_EQ(numbers.count, 1);
}

TEST_F(Stretch, a_step_that_is_not_as_expected_goes_to_python_with_its_arguments) {
  const auto refused = [&] { return !takes_step() && python.calls.back() == "usual+++"; };
  python.items[&only_self] = {&optimizer, &code};  // a closure
  EXPECT_TRUE(refused());
  python.items[&only_self] = {&optimizer};
  python.items[&no_names] = {&code};
  EXPECT_TRUE(refused());
  python.items[&no_names] = {};
  gradient[5] = std::nanf("");
  EXPECT_TRUE(refused());
  gradient[5] = 0;
  python.items[&groups] = {&group, &group};
  EXPECT_TRUE(refused());
  python.items[&groups] = {&group};
  python.types[&rate] = &code;  // a tensor
  EXPECT_TRUE(refused());
  python.types[&rate] = &float_type;
  known.optimizer = address(&code);
  EXPECT_TRUE(refused());
  known.optimizer = address(&optimizer);
  EXPECT_TRUE(takes_step());
  EXPECT_EQ(stretch.steps, 1);
}

TEST_F(Stretch, it_ends_at_the_step_at_which_something_is_due_and_after_its_time) {
  stretch.last_step = 8;
  EXPECT_TRUE(takes_step());
  EXPECT_FALSE(takes_step());
  stretch.last_step = 100;
  stretch.end_ns = 0;
  EXPECT_FALSE(takes_step());
  stretch.end_ns = std::numeric_limits<int64_t>::max();
  stretch.on = 0;
  EXPECT_FALSE(takes_step());
  EXPECT_FALSE(keeps_loss());
}

TEST_F(Stretch, another_thread_does_not_take_part) {
  stretch.thread++;
  EXPECT_FALSE(keeps_loss());
  EXPECT_FALSE(takes_step());
}

TEST_F(Stretch, a_new_learning_rate_is_kept_once) {
  python.floats[&rate] = 0.05;
  EXPECT_TRUE(takes_step());
  EXPECT_TRUE(takes_step());
  ASSERT_EQ(numbers.count, 1);
  EXPECT_EQ(numbers.ids[0], 4);
  EXPECT_EQ(numbers.values[0], 0.05);
  EXPECT_EQ(stretch.rates[0].value, 0.05);
}

TEST_F(Stretch, a_gradient_that_is_not_there_says_nothing) {
  python.members[{&weight, &names[6]}] = &python.none;
  EXPECT_TRUE(takes_step());
  python.answers[&reference] = &python.none;  // the model is gone
  EXPECT_FALSE(takes_step());
  known.parameter = 0;
  EXPECT_TRUE(takes_step());
}

TEST_F(Stretch, the_first_step_is_told_the_second_timed_and_each_keeps_what_python_wants) {
  stretch.timed = 2;
  stretch.is_first = 1;
  known.parameter = 0;
  stretch.on_first = address(&first);
  stretch.on_keep = address(&keep);
  EXPECT_TRUE(keeps_loss());
  EXPECT_TRUE(takes_step());
  EXPECT_EQ(python.calls, (Calls{"first", "keep"}));
  EXPECT_EQ(stretch.own_ns, 0);
  EXPECT_TRUE(keeps_loss());
  EXPECT_TRUE(takes_step());
  EXPECT_EQ(python.calls, (Calls{"keep"}));
  const int64_t own_ns = stretch.own_ns;
  EXPECT_GT(own_ns, 0);
  EXPECT_TRUE(keeps_loss());
  EXPECT_TRUE(takes_step());
  EXPECT_EQ(stretch.own_ns, own_ns);
}

TEST_F(Stretch, the_random_state_is_kept_after_each_step) {
  std::array<char, 8> live{"before"};
  std::array<char, 8> kept{};
  stretch.random = {address(live.data()), address(kept.data()), 8};
  EXPECT_TRUE(takes_step());
  EXPECT_EQ(kept, live);
  EXPECT_EQ(stretch.random_step, stretch.step);
  live = {"after"};
  EXPECT_TRUE(takes_step());
  EXPECT_EQ(kept, live);
  live = {"later"};
  stretch.random.bytes = 0;
  EXPECT_TRUE(takes_step());
  EXPECT_NE(kept, live);
  EXPECT_EQ(stretch.random_step, stretch.step - 1);
}

TEST_F(Stretch, at_each_tick_numbers_are_written_and_steps_accounted_for) {
  known.parameter = 0;
  stretch.tick_ns = 0;
  stretch.tick_every_ns = std::numeric_limits<int64_t>::max() / 2;
  EXPECT_TRUE(keeps_loss());
  EXPECT_TRUE(takes_step());
  EXPECT_EQ(numbers.count, 0);
  EXPECT_EQ(stretch.told_steps, 1);
  EXPECT_EQ(stretch.told_ns, stretch.last_ns);
  EXPECT_EQ(stretch.timed, 1);  // what the steps to come take is measured anew
  EXPECT_EQ(stretch.tick_ns, stretch.last_ns + stretch.tick_every_ns);
  EXPECT_TRUE(python.calls.empty());
  EXPECT_TRUE(keeps_loss());
  EXPECT_TRUE(takes_step());
  EXPECT_EQ(numbers.count, 1);
  EXPECT_EQ(stretch.told_steps, 1);
}

TEST_F(Stretch, a_sample_that_is_covered_at_a_tick_is_told_once_its_step_is_open) {
  // GIVEN a plan of which something is due at each step
  const TemporaryFolder folder;
  paramedic_options options{};
  options.struct_bytes = sizeof options;
  options.ring_bytes = 1 << 20;
  options.ring_directory = folder.path().c_str();
  options.run_id = "test";
  options.plan = "collection all kind=gradient interval=1 what=stats";
  options.world_size = 1;
  options.overhead_budget = 0.01;
  paramedic_probe* probe = paramedic_probe_open(&options, nullptr, 0);
  ASSERT_NE(probe, nullptr);
  numbers.probe = probe;
  stretch.own_ns = 1000;
  known.parameter = 0;
  // WHEN a step begins before and after a tick
  EXPECT_TRUE(takes_step());
  EXPECT_TRUE(python.calls.empty());
  stretch.told_ns = stretch.last_ns - 1'000'000'000;
  stretch.tick_ns = 0;
  EXPECT_TRUE(takes_step());
  // THEN the owner is told at the second, and both are accounted for
  EXPECT_EQ(python.calls, Calls{"due"});
  EXPECT_EQ(stretch.step, 9);
  EXPECT_GT(paramedic_overhead_percent(probe), 0);
  EXPECT_NE(paramedic_due(probe, 0, 9), 0U);
  // AND so it is when the step is opened that has to be asked for
  stretch.ask_step = 10;
  EXPECT_TRUE(takes_step());
  EXPECT_EQ(python.calls, Calls{"due"});
  paramedic_probe_close(probe);
}

// Optimizers without groups of parameters, and a second line that calls `backward()`.
class StretchOfSeveral : public Stretch {
 protected:
  StretchOfSeveral() {
    stretch.optimizer_count = 3;
    for (size_t i = 0; i < others.size(); i++) {
      stretch.optimizers[i] = {address(&others[i]), 0, 0, 0, 6, 0, 0};
      python.members[{&others[i], &names[7]}] = &no_names;
    }
    stretch.line_count = 2;
    stretch.lines[1] = {address(&code), 80, 5, 0};
  }

  // `optimizer.step()`; which step is open then.
  int64_t update(size_t number) {
    EXPECT_TRUE(takes_step_of(&others[number]));
    return stretch.step;
  }
  // `backward()` at the first or the second line; which step is open then.
  int64_t backward(long long at) {
    python.integers[&place] = at;
    EXPECT_TRUE(keeps_loss());
    return stretch.step;
  }

  std::array<int, 3> others{};
};

TEST_F(StretchOfSeveral, a_step_is_over_when_all_have_stepped) {
  for (int64_t step = 7; step < 10; step++) {
    EXPECT_EQ(backward(40), step);
    EXPECT_EQ(update(0), step);
    EXPECT_EQ(backward(80), step);
    EXPECT_EQ(update(2), step);
    EXPECT_EQ(update(1), step + 1);
  }
  EXPECT_EQ(stretch.steps, 3);
  EXPECT_EQ(known.steps, 3);
  EXPECT_EQ(known.last_step, 9);
}

TEST_F(StretchOfSeveral, or_when_one_steps_again) {
  EXPECT_EQ(update(0), 7);
  EXPECT_EQ(known.is_stepped, 1);
  EXPECT_EQ(update(0), 8);
  EXPECT_EQ(update(1), 8);
  EXPECT_EQ(update(0), 9);
  EXPECT_EQ(stretch.optimizers[1].is_stepped, 0);
  EXPECT_EQ(stretch.optimizers[1].last_step, 8);
}

TEST_F(StretchOfSeveral, or_when_a_line_calls_backward_again_after_an_update) {
  EXPECT_EQ(backward(40), 7);
  EXPECT_EQ(backward(40), 7);  // gradients add up
  EXPECT_EQ(update(0), 7);
  EXPECT_EQ(backward(80), 7);
  EXPECT_EQ(backward(40), 8);
  EXPECT_EQ(update(1), 8);
  EXPECT_EQ(stretch.lines[1].is_seen, 0);
}

TEST_F(StretchOfSeveral, one_that_has_not_stepped_for_long_is_not_waited_for) {
  stretch.optimizers[2].optimizer = 0;  // its steps are none of the stretch
  stretch.optimizers[2].last_step = 7 - stretch.forget_steps;
  EXPECT_EQ(update(0), 7);
  EXPECT_EQ(update(1), 7);
  EXPECT_EQ(update(0), 8);
  EXPECT_EQ(update(1), 9);
}

TEST_F(StretchOfSeveral, each_has_its_own_rates_and_gradient) {
  stretch.optimizers[1].rate_count = 1;
  stretch.optimizers[1].first_rate = 3;
  stretch.rates[3] = {address(&float_type), 0.1, 9};
  python.floats[&rate] = 0.2;
  python.members[{&others[1], &names[7]}] = &groups;
  EXPECT_EQ(update(0), 7);
  EXPECT_EQ(numbers.count, 0);
  EXPECT_EQ(update(1), 7);
  ASSERT_EQ(numbers.count, 1);
  EXPECT_EQ(numbers.ids[0], 9);
  EXPECT_EQ(stretch.rates[3].value, 0.2);
  gradient[2] = std::nanf("");
  stretch.optimizers[2].parameter = address(&reference);
  EXPECT_FALSE(takes_step_of(&others[2]));
  EXPECT_EQ(stretch.optimizers[2].is_stepped, 0);
}

TEST_F(StretchOfSeveral, what_is_due_in_a_step_that_a_backward_begins_is_left_to_python) {
  EXPECT_EQ(backward(40), 7);
  EXPECT_EQ(update(0), 7);
  stretch.last_step = 7;
  EXPECT_FALSE(keeps_loss());
  EXPECT_EQ(stretch.step, 7);
}

TEST_F(Stretch, numbers_are_written_before_there_is_no_more_room) {
  numbers.count = PARAMEDIC_NUMBERS - 1;
  EXPECT_TRUE(keeps_loss());  // without a probe they go nowhere
  EXPECT_EQ(numbers.count, 0);
}

}  // namespace
}  // namespace paramedic::probe
