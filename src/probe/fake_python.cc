#include "probe/fake_python.h"

#include <cstdarg>
#include <utility>

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
void* PyModule_GetState(void* module) { return module; }
void* PyWeakref_GetObject(void* reference) { return python.answers[reference]; }
void* PyObject_Call(void* function, void* /*arguments*/, void* keywords) {
  python.calls.push_back(python.names[function] + (keywords == nullptr ? "" : "+"));
  if (function == python.raises_in) python.error = function;
  return function == python.raises_in ? nullptr
                                      : found_in(python.answers, function, &python.answer);
}
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
  // What is as large as an address is kept beside others of its kind, as a key of dicts.
  void* made = value < (1 << 20) ? &python.made : &python.keys.emplace_back();
  python.integers[made] = value;
  return referred(made);
}
long long PyLong_AsLongLong(void* number) {
  const auto found = python.integers.find(number);
  return found == python.integers.end() ? -1 : found->second;
}
double PyFloat_AsDouble(void* number) { return python.floats[number]; }
void PyErr_Clear() { python.error = nullptr; }
void PyErr_Fetch(void** type, void** /*value*/, void** /*traceback*/) {
  *type = std::exchange(python.error, nullptr);
}
void PyErr_Restore(void* type, void* /*value*/, void* /*traceback*/) { python.error = type; }
void* PyErr_Occurred() { return &python.answer; }  // asked after an answer of -1 only
void Py_IncRef(void* /*object*/) { python.references++; }
void Py_DecRef(void* /*object*/) { python.references--; }
ssize_t PyObject_Hash(void* object) { return PyObject_Size(object); }
int PyObject_RichCompareBool(void* first, void* second, int /*how*/) {
  return python.items[first] == python.items[second] ? 1 : 0;
}
void* PyTuple_Pack(ssize_t count, ...) {
  void* tuple = &python.tuples.emplace_back();
  va_list arguments;
  va_start(arguments, count);
  for (ssize_t i = 0; i < count; i++) python.items[tuple].push_back(va_arg(arguments, void*));
  va_end(arguments);
  return referred(tuple);
}
void* PyTuple_New(ssize_t count) {
  void* tuple = &python.tuples.emplace_back();
  python.items[tuple].resize(static_cast<size_t>(count));
  return referred(tuple);
}
int PyTuple_SetItem(void* tuple, ssize_t index, void* item) {
  python.items[tuple][static_cast<size_t>(index)] = item;
  python.references--;  // the tuple's own, which goes with it
  return 0;
}
void* PyDict_New() { return referred(&python.tuples.emplace_back()); }
void* PyIter_Next(void* /*iterator*/) {
  python.integers[&python.number] = python.drawn++;
  return referred(&python.number);
}
int PyDict_SetItem(void* dict, void* key, void* value) {
  void*& kept = python.dicts[dict][python.integers[key]];
  if (kept != nullptr) python.references--;
  kept = referred(value);
  return 0;
}
int PyDict_DelItem(void* dict, void* key) {
  const bool is_there = python.dicts[dict].erase(python.integers[key]) != 0;
  if (is_there) python.references--;
  if (!is_there) python.error = dict;
  return is_there ? 0 : -1;
}
void PyDict_Clear(void* dict) {
  python.references -= static_cast<long>(python.dicts[dict].size());
  python.dicts[dict].clear();
}
void* PyDict_GetItemWithError(void* dict, void* key) {
  const auto& entries = python.dicts[dict];
  const auto found = entries.find(python.integers[key]);
  return found == entries.end() ? nullptr : found->second;
}
void* PyEval_GetFrame() { return python.frame; }
ssize_t PyDict_Size(void* dict) {
  const auto filled = python.dicts.find(dict);
  return filled == python.dicts.end() ? python.modules
                                      : static_cast<ssize_t>(filled->second.size());
}
// NOLINTEND(readability-identifier-naming)
}
