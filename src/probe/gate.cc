// The quick half of what recovery does in each iteration (python/paramedic/recovery/gate.py). The
// library is bound to no version of Python: what it asks of the interpreter is in the stable ABI
// and found in the process that loads it.

#include <pthread.h>
#include <sys/types.h>

#include <cstring>

#include "probe/probe.h"

extern "C" {
// NOLINTBEGIN(readability-identifier-naming): the interpreter's own names
// Weak: a process without an interpreter loads the library all the same.
[[gnu::weak]] void* PyCapsule_GetPointer(void* capsule, const char* name);
[[gnu::weak]] void* PyObject_CallFunctionObjArgs(void* function, ...);
[[gnu::weak]] void* PyObject_GetAttr(void* object, void* name);
[[gnu::weak]] void PyErr_Clear();
[[gnu::weak]] void Py_IncRef(void* object);
[[gnu::weak]] void Py_DecRef(void* object);
[[gnu::weak]] ssize_t PyDict_Size(void* dict);
// NOLINTEND(readability-identifier-naming)
}

namespace {

constexpr int64_t kEndBytes = 24;

void* object_at(uint64_t address) { return reinterpret_cast<void*>(address); }

paramedic_gate* gate_of(void* capsule) {
  return static_cast<paramedic_gate*>(PyCapsule_GetPointer(capsule, nullptr));
}

// Whether the thread that trains is the one that calls: Python's number of it is this one.
bool is_own_thread(const paramedic_gate& gate) {
  return gate.thread == static_cast<uint64_t>(pthread_self());
}

void* none(const paramedic_gate& gate) {
  Py_IncRef(object_at(gate.none));
  return object_at(gate.none);
}

// Calls `function` with one argument or none; false when it raised.
bool call(uint64_t function, void* argument = nullptr) {
  void* result = PyObject_CallFunctionObjArgs(object_at(function), argument, nullptr);
  if (result != nullptr) Py_DecRef(result);
  return result != nullptr;
}

void keep_piece(const paramedic_gate_piece& piece) {
  const char* live = static_cast<const char*>(object_at(piece.live));
  char* kept = static_cast<char*>(object_at(piece.kept));
  if (piece.bytes > 2 * kEndBytes && std::memcmp(live, kept, kEndBytes) == 0) {
    const int64_t end = piece.bytes - kEndBytes;
    if (std::memcmp(live + end, kept + end, kEndBytes) == 0) return;
  }
  std::memcpy(kept, live, static_cast<size_t>(piece.bytes));
}

void keep_value(paramedic_gate_value& value) {
  void* now = PyObject_GetAttr(object_at(value.object), object_at(value.name));
  if (now == nullptr) PyErr_Clear();
  void* before = object_at(value.kept);
  value.kept = reinterpret_cast<uint64_t>(now);
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

int32_t paramedic_gate_works(void) {
  return PyCapsule_GetPointer != nullptr && PyObject_CallFunctionObjArgs != nullptr &&
                 PyObject_GetAttr != nullptr && PyErr_Clear != nullptr && Py_IncRef != nullptr &&
                 Py_DecRef != nullptr && PyDict_Size != nullptr
             ? 1
             : 0;
}

void paramedic_gate_keep(paramedic_gate* gate) {
  for (int64_t i = 0; i < gate->piece_count; i++) keep_piece(gate->pieces[i]);
  for (int64_t i = 0; i < gate->value_count; i++) keep_value(gate->values[i]);
}

void* paramedic_gate_mark(void* self, void* loop) {
  paramedic_gate& gate = *gate_of(self);
  const bool is_expected = reinterpret_cast<uint64_t>(loop) == gate.loop &&
                           gate.marks + 1 < gate.look_at && is_own_thread(gate) &&
                           PyDict_Size(object_at(gate.modules)) == gate.module_count;
  if (!is_expected && !call(gate.on_mark, loop)) return nullptr;
  if (!is_own_thread(gate)) return none(gate);
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
  return none(gate);
}

void* paramedic_gate_cleared(void* self, void* object) {
  paramedic_gate& gate = *gate_of(self);
  if (!is_own_thread(gate)) return none(gate);
  for (int64_t i = 0; i < gate.clearer_count; i++) {
    if (gate.clearers[i].object != reinterpret_cast<uint64_t>(object)) continue;
    for (int64_t owner = 0; owner < gate.owner_count; owner++) {
      if ((gate.clearers[i].owners >> owner & 1) == 0) continue;
      gate.owners[owner].cleared = 1;
      gate.owners[owner].idle = 0;
    }
    return none(gate);
  }
  return call(gate.on_clear, object) ? none(gate) : nullptr;
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
  if (!is_own_thread(gate) || count < 1) return none(gate);
  if (!change(gate)) return nullptr;
  for (int64_t i = 0; i < gate.owner_count; i++) {
    if (gate.owners[i].object != reinterpret_cast<uint64_t>(arguments[0])) continue;
    gate.owners[i].steps++;
    gate.owners[i].idle = 0;
    return none(gate);
  }
  return call(gate.on_step, arguments[0]) ? none(gate) : nullptr;
}
