// The quick half of what recovery does in each iteration (python/paramedic/recovery/gate.py).

#include "probe/gate.h"

#include "probe/interpreter.h"
#include "probe/piece.h"
#include "probe/probe.h"

using paramedic::probe::address_of;
using paramedic::probe::keep_piece;
using paramedic::probe::new_reference;
using paramedic::probe::object_at;
using paramedic::probe::this_thread;

namespace {

paramedic_gate* gate_of(void* capsule) {
  return static_cast<paramedic_gate*>(PyCapsule_GetPointer(capsule, nullptr));
}

// Whether the thread that trains is the one that calls: Python's number of it is this one.
bool is_own_thread(const paramedic_gate& gate) { return gate.thread == this_thread(); }

// Calls `function` with one argument or none; false when it raised.
bool call(uint64_t function, void* argument = nullptr) {
  void* result = PyObject_CallFunctionObjArgs(object_at(function), argument, nullptr);
  if (result != nullptr) Py_DecRef(result);
  return result != nullptr;
}

void keep_value(paramedic_gate_value& value) {
  void* now = PyObject_GetAttr(object_at(value.object), object_at(value.name));
  if (now == nullptr) PyErr_Clear();
  void* before = object_at(value.kept);
  value.kept = address_of(now);
  if (before != nullptr) Py_DecRef(before);
}

// The first backward pass or step of an iteration, or a later one; false when Python raised.
bool change(paramedic_gate& gate) {
  if (gate.changed != 0) return gate.zeroed == 0 || call(gate.on_change);
  gate.changed = 1;
  bool skip = gate.may_skip != 0;
  for (int64_t i = 0; i < gate.owner_count; i++) {
    paramedic_gate_owner& owner = gate.owners[i];
    owner.had_none = owner.cleared;
    skip = skip && (owner.cleared != 0 || owner.idle != 0);
  }
  gate.skipped = skip ? 1 : 0;
  return skip || call(gate.on_change);
}

}  // namespace

int32_t paramedic_native_works(void) {
  // One that has these has all of the stable ABI.
  return PyCapsule_GetPointer != nullptr && PyObject_CallFunctionObjArgs != nullptr &&
                 PyObject_CallMethodObjArgs != nullptr && PyObject_GetAttr != nullptr &&
                 PySequence_GetItem != nullptr && Py_IncRef != nullptr
             ? 1
             : 0;
}

void paramedic_gate_keep(paramedic_gate* gate) {
  for (int64_t i = 0; i < gate->piece_count; i++) keep_piece(gate->pieces[i]);
  for (int64_t i = 0; i < gate->value_count; i++) keep_value(gate->values[i]);
}

void* paramedic_gate_mark(void* self, void* loop) {
  paramedic_gate& gate = *gate_of(self);
  const bool is_expected = address_of(loop) == gate.loop && gate.marks + 1 < gate.look_at &&
                           is_own_thread(gate) &&
                           PyDict_Size(object_at(gate.modules)) == gate.module_count;
  if (!is_expected && !call(gate.on_mark, loop)) return nullptr;
  if (!is_own_thread(gate)) return new_reference(gate.none);
  gate.marks++;
  gate.changed = gate.skipped = 0;
  paramedic_gate_keep(&gate);
  for (int64_t i = 0; i < gate.owner_count; i++) {
    gate.owners[i].steps_at_mark = gate.owners[i].steps;
  }
  if (gate.sequence != 0) {
    gate.sequence_at_mark = reinterpret_cast<uint64_t (*)()>(gate.sequence)();
  }
  if (gate.on_keep != 0 && !call(gate.on_keep)) return nullptr;
  return new_reference(gate.none);
}

void* paramedic_gate_cleared(void* self, void* object) {
  paramedic_gate& gate = *gate_of(self);
  if (!is_own_thread(gate)) return new_reference(gate.none);
  for (int64_t i = 0; i < gate.clearer_count; i++) {
    if (gate.clearers[i].object != address_of(object)) continue;
    for (int64_t owner = 0; owner < gate.owner_count; owner++) {
      if ((gate.clearers[i].owners >> owner & 1) == 0) continue;
      gate.owners[owner].cleared = 1;
      gate.owners[owner].idle = 0;
    }
    return new_reference(gate.none);
  }
  return call(gate.on_clear, object) ? new_reference(gate.none) : nullptr;
}

void* paramedic_gate_backward(void* self, void* /*unused*/) {
  paramedic_gate& gate = *gate_of(self);
  if (is_own_thread(gate)) {
    if (!change(gate)) return nullptr;
    for (int64_t i = 0; i < gate.owner_count; i++) gate.owners[i].cleared = 0;
  }
  return PyObject_CallFunctionObjArgs(object_at(gate.on_level), nullptr);
}

void* paramedic_gate_step(void* self, void* const* arguments, int64_t count) {
  paramedic_gate& gate = *gate_of(self);
  const bool is_done = count < 1 || paramedic::probe::gate_step(gate, arguments[0]);
  return is_done ? new_reference(gate.none) : nullptr;
}

namespace paramedic::probe {

bool gate_step(paramedic_gate& gate, void* optimizer) {
  if (!is_own_thread(gate)) return true;
  if (!change(gate)) return false;
  for (int64_t i = 0; i < gate.owner_count; i++) {
    if (gate.owners[i].object != address_of(optimizer)) continue;
    gate.owners[i].steps++;
    gate.owners[i].idle = 0;
    return true;
  }
  return call(gate.on_step, optimizer);
}

}  // namespace paramedic::probe
