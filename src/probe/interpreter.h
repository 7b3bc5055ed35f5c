#pragma once
// What the functions that Python calls by themselves (gate.cc, stretch.cc) ask of the interpreter.
// The library is bound to no version of Python: all of it is in the stable ABI, and found in the
// process that loads it. Weak: a process without an interpreter loads the library all the same.

#include <pthread.h>
#include <sys/types.h>

#include <cstdint>
#include <ctime>

extern "C" {
// NOLINTBEGIN(readability-identifier-naming): the interpreter's own names
[[gnu::weak]] void* PyCapsule_GetPointer(void* capsule, const char* name);
[[gnu::weak]] void* PyModule_GetState(void* module);
[[gnu::weak]] void* PyObject_Call(void* function, void* arguments, void* keywords);
[[gnu::weak]] void* PyObject_Vectorcall(void* function, void* const* arguments, size_t count,
                                        void* names);
[[gnu::weak]] void* PyObject_CallFunctionObjArgs(void* function, ...);
[[gnu::weak]] void* PyObject_CallMethodObjArgs(void* object, void* name, ...);
[[gnu::weak]] void* PyObject_GetAttr(void* object, void* name);
[[gnu::weak]] int PyObject_SetAttr(void* object, void* name, void* value);
[[gnu::weak]] void* PyObject_GetItem(void* object, void* key);
[[gnu::weak]] void* PyObject_Type(void* object);
[[gnu::weak]] ssize_t PyObject_Size(void* object);
[[gnu::weak]] ssize_t PyObject_Hash(void* object);
[[gnu::weak]] int PyObject_RichCompareBool(void* first, void* second, int how);
[[gnu::weak]] void* PySequence_GetItem(void* sequence, ssize_t index);
[[gnu::weak]] void* PyTuple_New(ssize_t count);
[[gnu::weak]] void* PyTuple_Pack(ssize_t count, ...);
[[gnu::weak]] int PyTuple_SetItem(void* tuple, ssize_t index, void* item);
[[gnu::weak]] void* PyIter_Next(void* iterator);
[[gnu::weak]] void* PyDict_New();
[[gnu::weak]] ssize_t PyDict_Size(void* dict);
[[gnu::weak]] int PyDict_SetItem(void* dict, void* key, void* value);
[[gnu::weak]] int PyDict_DelItem(void* dict, void* key);
[[gnu::weak]] void PyDict_Clear(void* dict);
[[gnu::weak]] void* PyDict_GetItemWithError(void* dict, void* key);
[[gnu::weak]] void* PyEval_GetFrame();
[[gnu::weak]] void* PyFrame_GetBack(void* frame);
[[gnu::weak]] void* PyFrame_GetCode(void* frame);
[[gnu::weak]] int PyFrame_GetLasti(void* frame);
[[gnu::weak]] void* PyWeakref_GetObject(void* reference);
[[gnu::weak]] void* PyLong_FromLongLong(long long value);
[[gnu::weak]] long long PyLong_AsLongLong(void* number);
[[gnu::weak]] double PyFloat_AsDouble(void* number);
[[gnu::weak]] void PyErr_Clear();
[[gnu::weak]] void PyErr_Fetch(void** type, void** value, void** traceback);
[[gnu::weak]] void PyErr_Restore(void* type, void* value, void* traceback);
[[gnu::weak]] void* PyErr_Occurred();
[[gnu::weak]] void Py_IncRef(void* object);
[[gnu::weak]] void Py_DecRef(void* object);
// NOLINTEND(readability-identifier-naming)
}

namespace paramedic::probe {

// An object as the tables that Python fills name it, and back.
inline void* object_at(uint64_t address) { return reinterpret_cast<void*>(address); }
inline uint64_t address_of(const void* object) { return reinterpret_cast<uint64_t>(object); }

// A new reference to an object that its owner holds.
inline void* new_reference(uint64_t address) {
  Py_IncRef(object_at(address));
  return object_at(address);
}

// Python's number of the calling thread (threading.get_ident).
inline uint64_t this_thread() { return static_cast<uint64_t>(pthread_self()); }

inline int64_t clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return int64_t{1'000'000'000} * now.tv_sec + now.tv_nsec;
}

// Python's time.perf_counter_ns.
inline int64_t now_ns() { return clock_ns(CLOCK_MONOTONIC); }

// A reference that is given back; null after an error, which is cleared.
class Held {
 public:
  explicit Held(void* object) : object_(object) {
    if (object == nullptr) PyErr_Clear();
  }
  ~Held() {
    if (object_ != nullptr) Py_DecRef(object_);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  void* get() const { return object_; }
  bool is(uint64_t address) const { return object_ != nullptr && address_of(object_) == address; }

 private:
  void* object_;
};

inline void* attribute(void* object, uint64_t name) {
  return object == nullptr ? nullptr : PyObject_GetAttr(object, object_at(name));
}

inline bool as_integer(void* number, int64_t& value) {
  if (number == nullptr) return false;
  value = PyLong_AsLongLong(number);
  if (value != -1 || PyErr_Occurred() == nullptr) return true;
  PyErr_Clear();
  return false;
}

// What a frame knows is asked by functions, where there are some (3.9 and 3.11): as an attribute it
// costs three times as much, and an audit event.
inline void* frame_back(void* frame, uint64_t name) {
  return PyFrame_GetBack == nullptr ? attribute(frame, name) : PyFrame_GetBack(frame);
}

inline void* frame_code(void* frame, uint64_t name) {
  return PyFrame_GetCode == nullptr ? attribute(frame, name) : PyFrame_GetCode(frame);
}

inline bool frame_place(void* frame, uint64_t name, int64_t& place) {
  if (PyFrame_GetLasti == nullptr) return as_integer(Held(attribute(frame, name)).get(), place);
  place = PyFrame_GetLasti(frame);
  return true;
}

}  // namespace paramedic::probe
