#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/test_folder.h"
#include "probe/fake_python.h"
#include "probe/probe.h"
#include "record/ring_reader.h"

namespace paramedic::probe {
namespace {

using record::RecordType;
using Calls = std::vector<std::string>;

// `group.allreduce([tensor], options)` from a line of the user's, under one frame of the framework;
// it was made before.
class CollectiveTap : public ::testing::Test {
 protected:
  CollectiveTap() {
    python = FakePython();
    python.names = {
        {&genuine, "genuine"}, {&usual, "usual"}, {&wait, "wait"}, {&reference, "group"}};
    open_probe();
    tell_functions_and_names();
    tell_the_call();
    python.calls.clear();
  }
  ~CollectiveTap() override {
    reader.reset();
    paramedic_probe_close(probe);
  }

  void open_probe() {
    paramedic_options made{};
    made.struct_bytes = sizeof made;
    made.ring_bytes = 1 << 20;
    made.ring_directory = folder.path().c_str();
    made.run_id = "test";
    made.plan = "";
    made.world_size = 2;
    probe = paramedic_probe_open(&made, nullptr, 0);
    reader = record::RingReader::open(std::filesystem::directory_iterator(folder.path())->path())
                 .value();
    record.group = static_cast<uint32_t>(paramedic_define(probe, 8, 0, 0, nullptr, "0"));
    record.operation = static_cast<uint32_t>(paramedic_define(probe, 9, 0, 0, nullptr, "reduce"));
    record.where = UINT32_MAX;
    record.peer = -1;
  }

  void tell_functions_and_names() {
    tap.probe = address(probe);
    tap.none = address(&python.none);
    tap.works_max = 3;
    tap.passed_count = 1;
    tap.passed[0] = address(&framework_code);
    uint64_t* objects[] = {
        &tap.session,    &tap.inside,     &tap.works,      &tap.list_type,  &tap.yes,
        &tap.no,         &tap.name_step,  &tap.name_code,  &tap.name_place, &tap.name_back,
        &tap.name_shape, &tap.name_dtype, &tap.name_group, &tap.name_root,  &tap.name_asynchronous};
    for (size_t i = 0; i < std::size(objects); i++) *objects[i] = address(&names[i]);
    method = {address(&tap), address(&genuine), address(&usual), 0, 0};
    waiting = {address(&tap), address(&wait), 0, 0, 0};
    python.answers[&genuine] = &work;
  }

  void set(void* object, const uint64_t& name, void* value) {
    python.members[{object, reinterpret_cast<void*>(name)}] = value;
  }

  void tell_the_call() {
    python.dicts[&names[1]];
    python.dicts[&names[2]];
    python.frame = &framework_frame;
    set(&framework_frame, tap.name_code, &framework_code);
    set(&framework_frame, tap.name_back, &frame);
    set(&frame, tap.name_code, &code);
    set(&frame, tap.name_place, &place);
    python.integers[&place] = 40;
    set(&names[0], tap.name_step, &step);
    python.integers[&step] = 7;
    python.types[&list] = &names[3];
    python.items[&list] = {&tensor};
    set(&tensor, tap.name_shape, &shape);
    set(&tensor, tap.name_dtype, &dtype);
    python.items[&shape] = {&code, &place};
    set(&options, tap.name_asynchronous, &names[5]);
    python.items[&arguments] = {&group, &list, &options};
    python.answers[&reference] = &group;
    set(&call, tap.name_group, &group_id);
    python.integers[&group_id] = record.group;
    python.items[&waited] = {&work};
    EXPECT_FALSE(is_known());
    tap.calls[tap.missed] = {address(&code),
                             40,
                             address(&method),
                             address(&reference),
                             address(&shape),
                             address(&dtype),
                             -1,
                             0,
                             address(&call),
                             address(&numbers),
                             address(&record)};
    python.references = 0;
  }

  // Whether the call goes the short way.
  bool is_known() {
    python.calls.clear();
    paramedic_tap_call_method(&method, &arguments, nullptr);
    return python.calls == Calls{"group", "genuine"};
  }
  std::vector<RecordType> recorded() {
    std::vector<RecordType> types;
    EXPECT_TRUE(reader->read([&](const record::Record& one) { types.push_back(one.type); }).ok());
    return types;
  }
  void* inside() const {
    const auto& threads = python.dicts[&names[1]];
    const auto found = threads.find(static_cast<long long>(pthread_self()));
    return found == threads.end() ? nullptr : found->second;
  }
  size_t works() const { return python.dicts[&names[2]].size(); }

  TemporaryFolder folder;
  paramedic_probe* probe = nullptr;
  std::unique_ptr<record::RingReader> reader;
  paramedic_tap tap{};
  paramedic_tap_method method{}, waiting{};
  paramedic_collective record{};
  mutable std::array<int, 16> names{};
  int genuine = 0, usual = 0, wait = 0, framework_code = 0, framework_frame = 0, frame = 0;
  int code = 0, place = 0, step = 0, list = 0, tensor = 0, shape = 0, dtype = 0, options = 0;
  int arguments = 0, group = 0, reference = 0, call = 0, group_id = 0, numbers = 0, work = 0;
  int waited = 0, other = 0;
};

const std::vector kEntered{RecordType::kCollectiveEntered};
const std::vector kBoth{RecordType::kCollectiveEntered, RecordType::kCollectiveLeft};

TEST_F(CollectiveTap, a_known_call_is_entered_and_is_left_when_it_has_been_waited_for) {
  EXPECT_TRUE(is_known());
  EXPECT_EQ(works(), 1U);
  ASSERT_NE(inside(), nullptr);
  EXPECT_EQ(python.items[inside()], (std::vector<void*>{&call, &python.number}));
  EXPECT_EQ(recorded(), kEntered);
  EXPECT_EQ(paramedic_tap_wait(&waiting, &waited, nullptr), &python.answer);
  EXPECT_EQ(recorded(), (std::vector{RecordType::kCollectiveLeft}));
  EXPECT_EQ(works(), 0U);
  EXPECT_EQ(inside(), nullptr);
  EXPECT_EQ(tap.count, 2);
  EXPECT_EQ(python.references, 2);  // the two answers
}

TEST_F(CollectiveTap, a_call_that_differs_goes_the_usual_way_with_a_place_to_write_it_down) {
  const std::vector<std::function<void()>> changes = {
      [&] { python.integers[&place] = 42; },
      [&] { set(&frame, tap.name_code, &other); },
      [&] { set(&tensor, tap.name_dtype, &other); },
      [&] { python.items[&shape].push_back(&other); },
      [&] { python.items[&arguments][0] = &other; },
      [&] { python.answers[&reference] = &python.none; },
      [&] { set(&options, tap.name_asynchronous, &names[4]); },
  };
  const FakePython before = python;
  for (const auto& change : changes) {
    change();
    EXPECT_FALSE(is_known()) << &change - changes.data();
    EXPECT_EQ(python.calls.back(), "usual");
    EXPECT_GE(tap.missed, 0);
    EXPECT_EQ(python.references, 1);
    python = before;
  }
  EXPECT_TRUE(is_known());
  EXPECT_EQ(recorded(), kEntered);
}

TEST_F(CollectiveTap, a_call_that_cannot_be_known_goes_the_usual_way) {
  const std::vector<std::function<void()>> changes = {
      [&] { tap.probe = 0; },
      [&] { python.items[&list].push_back(&tensor); },
      [&] { python.items[&arguments].pop_back(); },
      [&] { set(&options, tap.name_asynchronous, &other); },
      [&] { set(&tensor, tap.name_shape, nullptr); },
      [&] { python.frame = nullptr; },
  };
  const FakePython before = python;
  for (const auto& change : changes) {
    change();
    EXPECT_FALSE(is_known()) << &change - changes.data();
    EXPECT_EQ(tap.missed, -1);
    EXPECT_EQ(python.references, 1);
    python = before;
    tap.probe = address(probe);
  }
  python.calls.clear();
  paramedic_tap_call_method(&method, &arguments, &other);
  EXPECT_EQ(python.calls, (Calls{"usual+"}));
  EXPECT_TRUE(recorded().empty());
}

TEST_F(CollectiveTap, the_root_is_part_of_what_a_call_is_known_by) {
  method.has_root = 1;
  set(&options, tap.name_root, &place);
  EXPECT_FALSE(is_known());
  const paramedic_tap_call written = tap.calls[tap.missed];
  for (paramedic_tap_call& one : tap.calls) {
    if (one.call != 0) tap.calls[tap.missed] = one;
  }
  EXPECT_EQ(written.call, 0U);
  tap.calls[tap.missed].root = 40;
  EXPECT_TRUE(is_known());
}

TEST_F(CollectiveTap, what_the_method_raises_is_passed_on_and_the_call_is_left) {
  python.raises_in = &genuine;
  EXPECT_EQ(paramedic_tap_call_method(&method, &arguments, nullptr), nullptr);
  EXPECT_EQ(python.error, &genuine);
  EXPECT_EQ(inside(), nullptr);
  EXPECT_EQ(recorded(), kBoth);
  EXPECT_EQ(python.references, 0);
}

TEST_F(CollectiveTap, what_waiting_raises_is_passed_on_and_the_call_is_left) {
  EXPECT_TRUE(is_known());
  python.raises_in = &wait;
  EXPECT_EQ(paramedic_tap_wait(&waiting, &waited, nullptr), nullptr);
  EXPECT_EQ(python.error, &wait);
  EXPECT_EQ(inside(), nullptr);
  EXPECT_EQ(recorded(), kBoth);
}

TEST_F(CollectiveTap, a_call_that_returns_nothing_is_left_at_once) {
  python.answers[&genuine] = &python.none;
  EXPECT_TRUE(is_known());
  EXPECT_EQ(inside(), nullptr);
  EXPECT_EQ(works(), 0U);
  EXPECT_EQ(recorded(), kBoth);
}

TEST_F(CollectiveTap, an_asynchronous_call_is_waited_in_only_while_it_is_waited_for) {
  set(&options, tap.name_asynchronous, &names[4]);
  EXPECT_FALSE(is_known());
  for (paramedic_tap_call& one : tap.calls) {
    if (one.call != 0) tap.calls[tap.missed] = one;
  }
  tap.calls[tap.missed].asynchronous = 1;
  EXPECT_TRUE(is_known());
  EXPECT_EQ(inside(), nullptr);
  EXPECT_EQ(works(), 1U);
  paramedic_tap_wait(&waiting, &waited, nullptr);
  EXPECT_EQ(recorded(), kBoth);
}

TEST_F(CollectiveTap, what_was_not_started_here_is_waited_for_and_not_recorded) {
  EXPECT_EQ(paramedic_tap_wait(&waiting, &waited, nullptr), &python.answer);
  EXPECT_EQ(inside(), nullptr);
  EXPECT_TRUE(recorded().empty());
  EXPECT_EQ(python.references, 1);
}

TEST_F(CollectiveTap, works_that_nobody_waits_for_are_bounded) {
  std::array<int, 10> many{};
  for (int& one : many) {
    python.answers[&genuine] = &one;
    EXPECT_TRUE(is_known());
    EXPECT_LE(works(), 3U);
  }
}

}  // namespace
}  // namespace paramedic::probe
