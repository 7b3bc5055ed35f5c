#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/test_folder.h"
#include "probe/fake_python.h"
#include "probe/probe.h"

namespace paramedic::probe {
namespace {

using Calls = std::vector<std::string>;

// Tensors of a framework of the test's own.
struct Storage {
  uint64_t references = 1;
  uint64_t data = 0;
};
struct Autograd {
  uint64_t name = 0;
  uint64_t gradient = 0;
};
struct Tensor {
  uint64_t keys = 0x30;
  uint64_t storage = 0;
  int64_t offset = 2;
  uint64_t autograd = 0;
  uint32_t device = 0;
  uint16_t type = 6;
};
struct Object {
  uint64_t head = 0;
  uint64_t tensor = 0;
};

// A loop with one line of `backward()` and one optimizer, whose steps go the short way.
class Stretch : public ::testing::Test {
 protected:
  Stretch() {
    python = FakePython();
    python.names = {{&usual, "usual"},     {&first, "first"},          {&keep, "keep"},
                    {&genuine, "genuine"}, {&on_backward, "backward"}, {&due, "due"}};
    tell_functions_and_names();
    tell_the_job();
    stretch.on = 1;
    stretch.step = 7;
    stretch.last_step = stretch.ask_step = 100;
    stretch.end_ns = stretch.tick_ns = std::numeric_limits<int64_t>::max();
    stretch.thread = static_cast<uint64_t>(pthread_self());
  }

  void tell_functions_and_names() {
    stretch.run = address(&genuine);
    stretch.on_backward = address(&on_backward);
    stretch.on_step = address(&usual);
    stretch.on_due = address(&due);
    stretch.numbers = address(&numbers);
    stretch.progress = address(&progress);
    stretch.none = address(&python.none);
    stretch.tensor_type = address(&tensor_type);
    uint64_t* attributes[] = {&stretch.name_back, &stretch.name_code, &stretch.name_place,
                              &stretch.name_groups, &stretch.name_rate};
    for (size_t i = 0; i < std::size(attributes); i++) *attributes[i] = address(&names[i]);
    stretch.layout = {.in_object = offsetof(Object, tensor),
                      .keys = offsetof(Tensor, keys),
                      .type = offsetof(Tensor, type),
                      .storage = offsetof(Tensor, storage),
                      .offset = offsetof(Tensor, offset),
                      .autograd = offsetof(Tensor, autograd),
                      .data = offsetof(Storage, data),
                      .gradient = offsetof(Autograd, gradient),
                      .plain_keys = 0x30,
                      .float32 = 6,
                      .no_tensor = address(&python.none)};
  }

  void tell_the_job() {
    stretch.line_count = 1;
    stretch.lines[0] = {address(&code), 40, 3, 0};
    python.frame = &runs;
    python.members[{&runs, &names[0]}] = &frame;
    python.members[{&frame, &names[1]}] = &code;
    python.members[{&frame, &names[2]}] = &place;
    python.integers[&place] = 40;
    loss_tensor.tensor = address(&loss_in_torch);
    loss_storage.data = address(loss.data());
    loss_in_torch.storage = address(&loss_storage);
    python.types[&loss_tensor] = &tensor_type;
    stretch.forget_steps = 20;
    stretch.optimizer_count = 1;
    known.optimizer = address(&optimizer);
    known.parameter = address(&reference);
    known.rate_count = 1;
    stretch.rates[0] = {address(&float_type), 0.1, 4};
    python.members[{&optimizer, &names[3]}] = &groups;
    python.items[&groups] = {&group};
    python.members[{&group, &names[4]}] = &rate;
    python.types[&rate] = &float_type;
    python.floats[&rate] = 0.1;
    python.items[&only_self] = {&optimizer};
    python.answers[&reference] = &weight;
    weight.tensor = address(&weight_in_torch);
    weight_in_torch.autograd = address(&autograd);
    autograd.gradient = address(&gradient_in_torch);
    gradient_in_torch.storage = address(&gradient_storage);
    gradient_storage.data = address(gradient.data());
  }

  // `backward(loss, gradient)`; whether the loss was kept, and the genuine function called.
  bool keeps_loss(void* pass = &python.none) {
    void* const arguments[] = {&loss_tensor, pass};
    paramedic_stretch* state = &stretch;
    python.calls.clear();
    EXPECT_EQ(paramedic_stretch_backward(static_cast<void*>(&state), arguments, 2, nullptr),
              &python.answer);
    const bool is_kept = python.calls.back() == "genuine+";
    EXPECT_EQ(python.calls, Calls{is_kept ? "genuine+" : "backward+"});
    return is_kept;
  }
  // Whether the step goes the short way; both ways answer nothing.
  bool takes_step() { return takes_step_of(&optimizer); }
  bool takes_step_of(void* stepping) {
    void* const arguments[] = {stepping, &only_self, &no_names};
    python.calls.clear();
    EXPECT_EQ(paramedic_stretch_step(&stretch, arguments, 3), &python.none);
    return std::find(python.calls.begin(), python.calls.end(), "usual+++") == python.calls.end();
  }

  paramedic_stretch stretch{};
  paramedic_stretch_optimizer& known = stretch.optimizers[0];
  paramedic_numbers numbers{};
  paramedic_progress progress{};
  std::array<int, 5> names{};
  std::array<float, 8> gradient{0, 0, 1, 2, 3, 4, 5, 6};
  std::array<float, 3> loss{0, 0, 0.5f};
  Object loss_tensor, weight;
  Tensor loss_in_torch, weight_in_torch, gradient_in_torch;
  Storage loss_storage, gradient_storage;
  Autograd autograd;
  int genuine = 0, on_backward = 0, due = 0;
  int usual = 0, first = 0, keep = 0, reference = 0, optimizer = 0, tensor_type = 0;
  int code = 0, place = 0, runs = 0, frame = 0, groups = 0, group = 0, rate = 0;
  int float_type = 0, only_self = 0, no_names = 0;
};

TEST_F(Stretch, a_step_keeps_its_loss_and_is_counted) {
  for (int64_t i = 0; i < 3; i++) {
    EXPECT_TRUE(keeps_loss());
    EXPECT_TRUE(takes_step());
    EXPECT_EQ(numbers.count, i + 1);
    EXPECT_EQ(numbers.steps[i], 7 + i);
    EXPECT_EQ(numbers.ids[i], 3);
    EXPECT_EQ(numbers.values[i], 0.5);
    EXPECT_EQ(progress.step, 8 + i);
    EXPECT_EQ(progress.signs, i + 1);
  }
  EXPECT_EQ(stretch.steps, 3);
}

TEST_F(Stretch, every_reference_is_given_back) {
  keeps_loss();
  takes_step();
  EXPECT_EQ(python.references, 2);  // the two answers
}

TEST_F(Stretch, a_loss_that_is_not_as_expected_is_left_to_python) {
  loss[2] = std::nanf("");
  EXPECT_FALSE(keeps_loss());
  loss[2] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(keeps_loss());
  loss[2] = 1.0f;
  EXPECT_TRUE(keeps_loss());
  python.integers[&place] = 41;  // another line
  EXPECT_FALSE(keeps_loss());
  python.integers[&place] = 40;
  EXPECT_FALSE(keeps_loss(&weight));  // a gradient is given
  python.types[&loss_tensor] = &float_type;
  EXPECT_FALSE(keeps_loss());
  python.types[&loss_tensor] = &tensor_type;
  loss_in_torch.keys = 0x31;  // on a device
  EXPECT_FALSE(keeps_loss());
  loss_in_torch.keys = 0x30;
  loss_in_torch.type = 7;
  EXPECT_FALSE(keeps_loss());
  loss_in_torch.type = 6;
  loss_in_torch.storage = 0;
  EXPECT_FALSE(keeps_loss());
  loss_in_torch.storage = address(&loss_storage);
  python.frame = nullptr;
  EXPECT_FALSE(keeps_loss());
  EXPECT_EQ(numbers.count, 1);
}

TEST_F(Stretch, a_pass_is_run_with_the_arguments_that_it_was_given) {
  void* const arguments[] = {&loss_tensor, &python.none, &keep, &first};
  int pair_of_names = 0;
  python.items[&pair_of_names] = {&names[0], &names[1]};
  python.integers[&names[0]] = 10;
  python.integers[&names[1]] = 11;
  paramedic_stretch* state = &stretch;
  paramedic_stretch_backward(static_cast<void*>(&state), arguments, 2, &pair_of_names);
  EXPECT_EQ(python.calls, Calls{"genuine+"});
  const std::vector<void*>& given = python.items[&python.tuples[0]];
  EXPECT_EQ(given, std::vector<void*>({&loss_tensor, &python.none}));
  const std::map<long long, void*> named{{10, &keep}, {11, &first}};
  EXPECT_EQ(python.dicts[&python.tuples[1]], named);
}

TEST_F(Stretch, a_step_that_is_not_as_expected_goes_to_python_with_its_arguments) {
  const auto refused = [&] { return !takes_step() && python.calls.back() == "usual+++"; };
  python.items[&only_self] = {&optimizer, &code};  // a closure
  EXPECT_TRUE(refused());
  python.items[&only_self] = {&optimizer};
  python.items[&no_names] = {&code};
  EXPECT_TRUE(refused());
  python.items[&no_names] = {};
  gradient[7] = std::nanf("");  // the last one that is looked at
  EXPECT_TRUE(refused());
  gradient[7] = 0;
  gradient_in_torch.keys = 0x70;  // sparse
  EXPECT_TRUE(refused());
  gradient_in_torch.keys = 0x30;
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

TEST_F(Stretch, a_gate_is_told_of_each_step_on_both_ways) {
  paramedic_gate gate{};
  gate.thread = stretch.thread;
  gate.changed = gate.owner_count = 1;
  gate.owners[0].object = address(&optimizer);
  stretch.gate = address(&gate);
  EXPECT_TRUE(takes_step());
  EXPECT_EQ(gate.owners[0].steps, 1);
  stretch.on = 0;
  EXPECT_FALSE(takes_step());
  EXPECT_EQ(gate.owners[0].steps, 2);
}

TEST_F(Stretch, what_python_raises_before_a_step_is_passed_on) {
  stretch.on = 0;
  python.raises = true;
  void* const arguments[] = {&optimizer, &only_self, &no_names};
  EXPECT_EQ(paramedic_stretch_step(&stretch, arguments, 3), nullptr);
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
  autograd.gradient = stretch.layout.no_tensor;
  EXPECT_TRUE(takes_step());
  weight_in_torch.autograd = 0;
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
      python.members[{&others[i], &names[3]}] = &no_names;
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
  python.members[{&others[1], &names[3]}] = &groups;
  EXPECT_EQ(update(0), 7);
  EXPECT_EQ(numbers.count, 0);
  EXPECT_EQ(update(1), 7);
  ASSERT_EQ(numbers.count, 1);
  EXPECT_EQ(numbers.ids[0], 9);
  EXPECT_EQ(stretch.rates[3].value, 0.2);
  gradient[4] = std::nanf("");
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
