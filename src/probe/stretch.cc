// Steps at which nothing is due (python/paramedic/adapters/torch/quick.py).
//
// Every look fails quietly: what cannot be read is "not as expected", and the owner's function,
// which is asked then, finds out why.

#include <cmath>

#include "probe/interpreter.h"
#include "probe/piece.h"
#include "probe/probe.h"

using paramedic::probe::address_of;
using paramedic::probe::as_integer;
using paramedic::probe::attribute;
using paramedic::probe::Held;
using paramedic::probe::keep_piece;
using paramedic::probe::new_reference;
using paramedic::probe::now_ns;
using paramedic::probe::object_at;
using paramedic::probe::this_thread;

namespace {

constexpr uint8_t kTraining = 0;  // record::Mode
constexpr int kValues = 6;        // of a gradient; a NaN of the pass is in most units of a layer

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

// The line of the stretch at which `frame` stands; null when it stands elsewhere.
const paramedic_stretch_line* line_of(const paramedic_stretch& stretch, void* frame) {
  const Held code(attribute(frame, stretch.name_code));
  const Held place(attribute(frame, stretch.name_place));
  int64_t at = 0;
  if (code.get() == nullptr || !as_integer(place.get(), at)) return nullptr;
  for (int64_t i = 0; i < stretch.line_count; i++) {
    const paramedic_stretch_line& line = stretch.lines[i];
    if (code.is(line.code) && line.place == at) return &line;
  }
  return nullptr;
}

// Where the numbers of a tensor on the CPU lie; null when it is on a device or has none.
const float* floats_of(const paramedic_stretch& stretch, void* tensor) {
  const Held is_cpu(attribute(tensor, stretch.name_is_cpu));
  if (!is_cpu.is(stretch.yes)) return nullptr;
  const Held data(PyObject_CallMethodObjArgs(tensor, object_at(stretch.name_data_ptr), nullptr));
  int64_t at = 0;
  if (!as_integer(data.get(), at)) return nullptr;
  return static_cast<const float*>(object_at(static_cast<uint64_t>(at)));
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
  const Held parameter(PyObject_CallFunctionObjArgs(object_at(known.parameter), nullptr));
  const Held gradient(attribute(parameter.get(), stretch.name_grad));
  if (gradient.is(stretch.none)) return true;
  if (gradient.get() == nullptr) return false;
  const float* values = floats_of(stretch, gradient.get());
  if (values == nullptr) return false;
  double sum = 0.0;
  for (int i = 0; i < kValues; i++) sum += values[i];
  return std::isfinite(sum);
}

bool open_next(paramedic_stretch& stretch) {
  const Held next(PyLong_FromLongLong(stretch.step + 1));
  if (next.get() == nullptr) return false;
  const int failed =
      PyObject_SetAttr(object_at(stretch.session), object_at(stretch.name_step), next.get());
  if (failed != 0) {
    PyErr_Clear();
    return false;
  }
  stretch.step++;
  stretch.steps++;
  return true;
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
  if (!open_next(stretch)) return false;
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
  void* const tensor = arguments[0];
  line = line_of(stretch, arguments[2]);
  if (line == nullptr) return nullptr;
  const Held type(PyObject_Type(tensor));
  const Held gradient(PySequence_GetItem(arguments[1], 0));
  if (!type.is(stretch.tensor_type) || !gradient.is(stretch.none)) return nullptr;
  const Held dtype(attribute(tensor, stretch.name_dtype));
  return dtype.is(stretch.float32) ? floats_of(stretch, tensor) : nullptr;
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

}  // namespace

void* paramedic_stretch_loss(void* self, void* const* arguments, int64_t count) {
  paramedic_stretch& stretch = *stretch_of(self);
  const bool is_kept = count == 3 && stretch.on != 0 && stretch.thread == this_thread() &&
                       keep_loss(stretch, arguments);
  return new_reference(is_kept ? stretch.yes : stretch.no);
}

void* paramedic_stretch_step(void* self, void* const* arguments, int64_t count) {
  paramedic_stretch& stretch = *stretch_of(self);
  if (count == 3 && stretch.on != 0 && take_update(stretch, arguments)) {
    return new_reference(stretch.none);
  }
  return PyObject_CallFunctionObjArgs(object_at(stretch.on_step), arguments[0], arguments[1],
                                      arguments[2], nullptr);
}
