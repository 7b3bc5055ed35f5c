// Steps at which nothing is due (python/paramedic/adapters/torch/quick.py).
//
// Every look fails quietly: what cannot be read is "not as expected", and the owner's function,
// which is asked then, finds out why.

#include <cmath>
#include <cstddef>
#include <cstring>

#include "probe/gate.h"
#include "probe/interpreter.h"
#include "probe/piece.h"
#include "probe/probe.h"

using paramedic::probe::address_of;
using paramedic::probe::attribute;
using paramedic::probe::frame_back;
using paramedic::probe::frame_code;
using paramedic::probe::frame_place;
using paramedic::probe::gate_step;
using paramedic::probe::Held;
using paramedic::probe::keep_piece;
using paramedic::probe::new_reference;
using paramedic::probe::now_ns;
using paramedic::probe::object_at;
using paramedic::probe::this_thread;

namespace {

constexpr uint8_t kTraining = 0;  // record::Mode
constexpr int kValues = 6;        // of a gradient; a NaN of the pass is in most units of a layer

// Between two operations of a framework nothing of a stretch is in a cache. What a step reads of it
// is asked for at once, and comes in the time that one line of it takes.
void fetch(const paramedic_stretch& stretch) {
  constexpr size_t kLineBytes = 64;
  const char* start = reinterpret_cast<const char*>(&stretch);
  for (size_t at = 0; at < offsetof(paramedic_stretch, lines); at += kLineBytes) {
    __builtin_prefetch(start + at);
  }
  __builtin_prefetch(stretch.lines);
  __builtin_prefetch(stretch.optimizers);
  __builtin_prefetch(stretch.rates);
}

paramedic_stretch* stretch_of(void* capsule) {
  return static_cast<paramedic_stretch*>(PyCapsule_GetPointer(capsule, nullptr));
}

bool as_double(void* number, double& value) {
  value = PyFloat_AsDouble(number);
  if (value != -1.0 || PyErr_Occurred() == nullptr) return true;
  PyErr_Clear();
  return false;
}

paramedic_numbers& numbers_of(const paramedic_stretch& stretch) {
  return *static_cast<paramedic_numbers*>(object_at(stretch.numbers));
}

void write_numbers(paramedic_numbers& numbers) {
  const auto count = static_cast<int32_t>(numbers.count);
  numbers.count = 0;
  if (count == 0) return;
  paramedic_scalars_of_steps(numbers.probe, kTraining, numbers.steps, numbers.ids, numbers.values,
                             count);
}

void keep_number(const paramedic_stretch& stretch, int64_t number, double value) {
  paramedic_numbers& numbers = numbers_of(stretch);
  const int64_t at = numbers.count;
  numbers.steps[at] = stretch.step;
  numbers.ids[at] = static_cast<int32_t>(number);
  numbers.values[at] = value;
  numbers.count = at + 1;
  if (numbers.count == PARAMEDIC_NUMBERS) write_numbers(numbers);
}

// The line of the stretch that called what runs `backward()`; null when another one did.
const paramedic_stretch_line* calling_line(const paramedic_stretch& stretch) {
  void* const runs = PyEval_GetFrame();
  if (runs == nullptr) return nullptr;
  const Held caller(frame_back(runs, stretch.name_back));
  if (caller.get() == nullptr) return nullptr;
  const Held code(frame_code(caller.get(), stretch.name_code));
  int64_t place = 0;
  if (!frame_place(caller.get(), stretch.name_place, place)) return nullptr;
  for (int64_t i = 0; i < stretch.line_count; i++) {
    const paramedic_stretch_line& line = stretch.lines[i];
    if (code.is(line.code) && line.place == place) return &line;
  }
  return nullptr;
}

template <typename T>
T read(uint64_t object, int64_t offset) {
  T value;
  std::memcpy(&value, static_cast<const char*>(object_at(object)) + offset, sizeof value);
  return value;
}

// The numbers of a tensor of float32 on the CPU; null of any other. To ask Python's object costs
// 500 instructions, which are in no cache.
const float* floats_of(const paramedic_tensor_layout& layout, uint64_t tensor) {
  if (read<uint64_t>(tensor, layout.keys) != layout.plain_keys ||
      read<uint16_t>(tensor, layout.type) != layout.float32) {
    return nullptr;
  }
  const auto storage = read<uint64_t>(tensor, layout.storage);
  const auto data = storage == 0 ? 0 : read<uint64_t>(storage, layout.data);
  return data == 0
             ? nullptr
             : static_cast<const float*>(object_at(data)) + read<int64_t>(tensor, layout.offset);
}

// Whether the learning rates are numbers as before; one that has changed is kept.
bool look_at_rates(paramedic_stretch& stretch, const paramedic_stretch_optimizer& known,
                   void* optimizer) {
  const Held groups(attribute(optimizer, stretch.name_groups));
  if (groups.get() == nullptr) return false;
  const ssize_t count = PyObject_Size(groups.get());
  if (count < 0) PyErr_Clear();
  if (count != known.rate_count) return false;
  for (int64_t i = 0; i < known.rate_count; i++) {
    paramedic_stretch_rate& rate = stretch.rates[known.first_rate + i];
    const Held group(PySequence_GetItem(groups.get(), i));
    if (group.get() == nullptr) return false;
    const Held value(PyObject_GetItem(group.get(), object_at(stretch.name_rate)));
    if (value.get() == nullptr) return false;
    const Held type(PyObject_Type(value.get()));
    double now = 0.0;
    if (!type.is(rate.type) || !as_double(value.get(), now)) return false;
    if (now == rate.value) continue;
    rate.value = now;
    keep_number(stretch, rate.number, now);
  }
  return true;
}

// Autograd gives a gradient the layout of its parameter, whose type and size were looked at when
// the stretch began; only the place may have changed since.
bool looks_finite(const paramedic_stretch& stretch, const paramedic_stretch_optimizer& known) {
  if (known.parameter == 0) return true;
  void* const parameter = PyWeakref_GetObject(object_at(known.parameter));
  if (parameter == nullptr || address_of(parameter) == stretch.none) return false;
  const paramedic_tensor_layout& layout = stretch.layout;
  const auto tensor = read<uint64_t>(address_of(parameter), layout.in_object);
  const auto autograd = read<uint64_t>(tensor, layout.autograd);
  const auto gradient =
      autograd == 0 ? layout.no_tensor : read<uint64_t>(autograd, layout.gradient);
  if (gradient == layout.no_tensor) return true;
  const float* values = floats_of(layout, gradient);
  if (values == nullptr) return false;
  double sum = 0.0;
  for (int i = 0; i < kValues; i++) sum += values[i];
  return std::isfinite(sum);
}

paramedic_progress& progress_of(const paramedic_stretch& stretch) {
  return *static_cast<paramedic_progress*>(object_at(stretch.progress));
}

void open_next(paramedic_stretch& stretch) {
  stretch.step++;
  stretch.steps++;
  progress_of(stretch).step = stretch.step;
}

paramedic_gate& gate_of(const paramedic_stretch& stretch) {
  return *static_cast<paramedic_gate*>(object_at(stretch.gate));
}

void call_if(uint64_t function) {
  if (function != 0) Held(PyObject_CallFunctionObjArgs(object_at(function), nullptr));
}

// A job that is killed loses no more than what came since the last one.
void tick(paramedic_stretch& stretch) {
  paramedic_probe* probe = numbers_of(stretch).probe;
  write_numbers(numbers_of(stretch));
  const int64_t own_ns = stretch.own_ns * (stretch.steps - stretch.told_steps);
  paramedic_step_done(probe, stretch.step - 1, stretch.last_ns - stretch.told_ns, own_ns, 0);
  // Of the next step it is measured anew: one that had no core stands for few others.
  stretch.timed = 1;
  stretch.own_ns = 0;
  stretch.told_ns = stretch.last_ns;
  stretch.told_steps = stretch.steps;
  stretch.tick_ns = stretch.last_ns + stretch.tick_every_ns;
  if (paramedic_due(probe, kTraining, stretch.step) != 0) {
    call_if(stretch.on_due);
  } else {
    stretch.ask_step = paramedic_next_due(probe, kTraining, stretch.step);
  }
}

// Whether the open step may be taken here.
bool is_within(const paramedic_stretch& stretch, int64_t now) {
  return now < stretch.end_ns && stretch.step < stretch.last_step;
}

// What a step takes of ours is measured in pieces, and only of some steps.
int64_t begin_piece(const paramedic_stretch& stretch) { return stretch.timed == 1 ? now_ns() : 0; }

void end_piece(paramedic_stretch& stretch, int64_t start) {
  if (start != 0) stretch.own_ns += now_ns() - start;
}

// False when the next step is not one of the stretch, or something is due in it.
bool end_step(paramedic_stretch& stretch, int64_t now) {
  const int64_t start = begin_piece(stretch);
  open_next(stretch);
  stretch.last_ns = now;
  for (int64_t i = 0; i < stretch.line_count; i++) stretch.lines[i].is_seen = 0;
  for (int64_t i = 0; i < stretch.optimizer_count; i++) stretch.optimizers[i].is_stepped = 0;
  call_if(stretch.on_keep);
  if (stretch.random.bytes > 0) {
    keep_piece(stretch.random);
    stretch.random_step = stretch.step;
  }
  end_piece(stretch, start);
  if (stretch.timed > 0) stretch.timed--;
  if (now >= stretch.tick_ns || stretch.step >= stretch.ask_step) tick(stretch);
  return stretch.on != 0;
}

bool has_stepped(const paramedic_stretch& stretch) {
  for (int64_t i = 0; i < stretch.optimizer_count; i++) {
    if (stretch.optimizers[i].is_stepped != 0) return true;
  }
  return false;
}

// Whether no optimizer is left that is likely to step before one steps again.
bool all_have_stepped(const paramedic_stretch& stretch) {
  const int64_t oldest = stretch.step - stretch.forget_steps;
  for (int64_t i = 0; i < stretch.optimizer_count; i++) {
    const paramedic_stretch_optimizer& known = stretch.optimizers[i];
    if (known.is_stepped == 0 && known.last_step >= oldest) return false;
  }
  return true;
}

// Two places in one line of the source are one line.
void see_line(paramedic_stretch& stretch, int64_t number) {
  for (int64_t i = 0; i < stretch.line_count; i++) {
    if (stretch.lines[i].number == number) stretch.lines[i].is_seen = 1;
  }
}

// The loss where it lies, or null; `line`: that of the stretch at which it is.
const float* loss_of(const paramedic_stretch& stretch, void* const* arguments,
                     const paramedic_stretch_line*& line) {
  if (address_of(arguments[1]) != stretch.none) return nullptr;
  const Held type(PyObject_Type(arguments[0]));
  if (!type.is(stretch.tensor_type)) return nullptr;
  const auto tensor = read<uint64_t>(address_of(arguments[0]), stretch.layout.in_object);
  const float* loss = floats_of(stretch.layout, tensor);
  if (loss != nullptr) line = calling_line(stretch);
  return line == nullptr ? nullptr : loss;
}

bool keep_loss(paramedic_stretch& stretch, void* const* arguments) {
  int64_t start = begin_piece(stretch);
  const paramedic_stretch_line* line = nullptr;
  const float* loss = loss_of(stretch, arguments, line);
  if (loss == nullptr || !std::isfinite(*loss)) return false;
  // A line that calls `backward()` once more after an update begins a new step.
  if (line->is_seen != 0 && has_stepped(stretch)) {
    const int64_t now = now_ns();
    if (!is_within(stretch, now) || !end_step(stretch, now)) return false;
    start = begin_piece(stretch);
  }
  progress_of(stretch).signs++;
  see_line(stretch, line->number);
  keep_number(stretch, line->number, *loss);
  end_piece(stretch, start);
  return true;
}

paramedic_stretch_optimizer* optimizer_of(paramedic_stretch& stretch, void* optimizer) {
  for (int64_t i = 0; i < stretch.optimizer_count; i++) {
    paramedic_stretch_optimizer& known = stretch.optimizers[i];
    if (known.optimizer == address_of(optimizer)) return &known;
  }
  return nullptr;
}

bool take_update(paramedic_stretch& stretch, void* const* arguments) {
  const int64_t now = now_ns();
  paramedic_stretch_optimizer* known = optimizer_of(stretch, arguments[0]);
  const bool is_usual = known != nullptr && is_within(stretch, now) &&
                        stretch.thread == this_thread() && PyObject_Size(arguments[1]) == 1 &&
                        PyObject_Size(arguments[2]) == 0;
  if (!is_usual || (known->is_stepped != 0 && !end_step(stretch, now))) return false;
  const int64_t start = begin_piece(stretch);
  if (!look_at_rates(stretch, *known, arguments[0]) || !looks_finite(stretch, *known)) {
    return false;
  }
  known->is_stepped = 1;
  known->last_step = stretch.step;
  known->steps++;
  if (stretch.is_first != 0) {
    stretch.is_first = 0;
    call_if(stretch.on_first);
  }
  end_piece(stretch, start);
  // That something is due in the next step is no matter of this update.
  if (all_have_stepped(stretch)) static_cast<void>(end_step(stretch, now));
  return true;
}

// Calls with what a function was called with.
void* call_with(uint64_t function, void* const* arguments, int64_t count, void* names) {
  if (PyObject_Vectorcall != nullptr) {
    return PyObject_Vectorcall(object_at(function), arguments, static_cast<size_t>(count), names);
  }
  void* const places = PyTuple_New(count);
  void* const named = places == nullptr ? nullptr : PyDict_New();
  if (named == nullptr) return nullptr;
  for (int64_t i = 0; i < count; i++) {
    Py_IncRef(arguments[i]);
    PyTuple_SetItem(places, i, arguments[i]);
  }
  const ssize_t name_count = names == nullptr ? 0 : PyObject_Size(names);
  for (ssize_t i = 0; i < name_count; i++) {
    PyDict_SetItem(named, Held(PySequence_GetItem(names, i)).get(), arguments[count + i]);
  }
  void* const result = PyObject_Call(object_at(function), places, named);
  Py_DecRef(places);
  Py_DecRef(named);
  return result;
}

}  // namespace

void* paramedic_stretch_backward(void* self, void* const* arguments, int64_t count, void* names) {
  paramedic_stretch& stretch = **static_cast<paramedic_stretch**>(PyModule_GetState(self));
  fetch(stretch);
  const bool is_kept = stretch.on != 0 && count >= 2 && stretch.thread == this_thread() &&
                       keep_loss(stretch, arguments);
  return call_with(is_kept ? stretch.run : stretch.on_backward, arguments, count, names);
}

void* paramedic_stretch_step(void* self, void* const* arguments, int64_t count) {
  paramedic_stretch& stretch = *stretch_of(self);
  fetch(stretch);
  if (count != 3 || stretch.on == 0 || !take_update(stretch, arguments)) {
    void* const answer = PyObject_CallFunctionObjArgs(object_at(stretch.on_step), arguments[0],
                                                      arguments[1], arguments[2], nullptr);
    if (answer == nullptr) return nullptr;
    Py_DecRef(answer);
  }
  const bool is_told = stretch.gate == 0 || gate_step(gate_of(stretch), arguments[0]);
  return is_told ? new_reference(stretch.none) : nullptr;
}
