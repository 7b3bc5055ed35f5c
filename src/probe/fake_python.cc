#include "probe/fake_python.h"

#include <cstdarg>

namespace paramedic::probe {

FakePython python;

namespace {

void* referred(void* object) {
  if (object != nullptr) python.references++;
  return object;
}

template <typename Table, typename Key>
void* found_in(const Table& table, const Key& key, void* otherwise = nullptr) {
  const auto found = table.find(key);
  return referred(found == table.end() ? otherwise : found->second);
}

}  // namespace
}  // namespace paramedic::probe

using paramedic::probe::found_in;
using paramedic::probe::python;
using paramedic::probe::referred;

extern "C" {
// NOLINTBEGIN(readability-identifier-naming): the interpreter's own names
void* PyCapsule_GetPointer(void* capsule, const char* /*name*/) { return capsule; }
void* PyObject_CallFunctionObjArgs(void* function, ...) {
  std::string call = python.names[function];
  va_list arguments;
  va_start(arguments, function);
  while (va_arg(arguments, void*) != nullptr) call += '+';
  va_end(arguments);
  python.calls.push_back(call);
  if (python.raises) return nullptr;
  return found_in(python.answers, function, &python.answer);
}
void* PyObject_CallMethodObjArgs(void* object, void* name, ...) {
  return found_in(python.members, std::pair(object, name));
}
void* PyObject_GetAttr(void* object, void* name) {
  return found_in(python.members, std::pair(object, name), python.any_attribute);
}
int PyObject_SetAttr(void* object, void* name, void* value) {
  python.members[{object, name}] = value;
  return 0;
}
void* PyObject_GetItem(void* object, void* key) {
  return found_in(python.members, std::pair(object, key));
}
void* PyObject_Type(void* object) { return found_in(python.types, object); }
ssize_t PyObject_Size(void* object) { return static_cast<ssize_t>(python.items[object].size()); }
void* PySequence_GetItem(void* sequence, ssize_t index) {
  const std::vector<void*>& items = python.items[sequence];
  return referred(static_cast<size_t>(index) < items.size() ? items[static_cast<size_t>(index)]
                                                            : nullptr);
}
void* PyLong_FromLongLong(long long value) {
  python.integers[&python.made] = value;
  return referred(&python.made);
}
long long PyLong_AsLongLong(void* number) {
  const auto found = python.integers.find(number);
  return found == python.integers.end() ? -1 : found->second;
}
double PyFloat_AsDouble(void* number) { return python.floats[number]; }
void PyErr_Clear() {}
void* PyErr_Occurred() { return &python.answer; }  // asked after an answer of -1 only
void Py_IncRef(void* /*object*/) { python.references++; }
void Py_DecRef(void* /*object*/) { python.references--; }
ssize_t PyDict_Size(void* /*dict*/) { return python.modules; }
// NOLINTEND(readability-identifier-naming)
}
