// Calls of process groups that were made before
// (python/paramedic/adapters/torch/distributed/known_calls.py).
//
// What cannot be read is "not as before", and the owner's function is asked; what the genuine
// method raises is the job's, and is passed on untouched.

#include <array>

#include "probe/interpreter.h"
#include "probe/probe.h"

using paramedic::probe::address_of;
using paramedic::probe::as_integer;
using paramedic::probe::attribute;
using paramedic::probe::Held;
using paramedic::probe::new_reference;
using paramedic::probe::object_at;
using paramedic::probe::this_thread;

namespace {

constexpr int kFramesMax = 16;  // up to the user's line
constexpr int kEqual = 2;       // Py_EQ

// An exception that is on its way, if there is one; put aside while the call is closed.
class Aside {
 public:
  Aside() { PyErr_Fetch(&error_[0], &error_[1], &error_[2]); }
  ~Aside() { PyErr_Restore(error_[0], error_[1], error_[2]); }
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;

 private:
  std::array<void*, 3> error_{};
};

paramedic_tap_method& method_of(void* capsule) {
  return *static_cast<paramedic_tap_method*>(PyCapsule_GetPointer(capsule, nullptr));
}

paramedic_tap& tap_of(const paramedic_tap_method& method) {
  return *static_cast<paramedic_tap*>(object_at(method.tap));
}

paramedic_probe* probe_of(const paramedic_tap& tap) {
  return static_cast<paramedic_probe*>(object_at(tap.probe));
}

bool is_passed(const paramedic_tap& tap, const Held& code) {
  for (int64_t i = 0; i < tap.passed_count; i++) {
    if (code.is(tap.passed[i])) return true;
  }
  return false;
}

struct Line {
  uint64_t code = 0;  // alive as long as its frame, which waits for this call
  int64_t place = 0;
};

// The first line from here outwards that is not known to be the framework's.
bool find_line(const paramedic_tap& tap, Line& line) {
  void* frame = PyEval_GetFrame();
  if (frame != nullptr) Py_IncRef(frame);
  for (int depth = 0; frame != nullptr && depth < kFramesMax; depth++) {
    const Held here(frame);
    const Held code(attribute(frame, tap.name_code));
    if (code.get() == nullptr) return false;
    if (!is_passed(tap, code)) {
      const Held place(attribute(frame, tap.name_place));
      line.code = address_of(code.get());
      return as_integer(place.get(), line.place);
    }
    frame = PyObject_GetAttr(frame, object_at(tap.name_back));
    if (frame == nullptr) PyErr_Clear();
  }
  if (frame != nullptr) Py_DecRef(frame);
  return false;
}

// The only tensor of an argument, which may be a list of one; null: there are none or several. A
// new reference.
void* tensor_of(const paramedic_tap& tap, void* argument) {
  if (argument == nullptr) return nullptr;
  const Held type(PyObject_Type(argument));
  if (!type.is(tap.list_type)) {
    Py_IncRef(argument);
    return argument;
  }
  if (PyObject_Size(argument) != 1) return nullptr;
  void* only = PySequence_GetItem(argument, 0);
  if (only == nullptr) return nullptr;
  const Held its_type(PyObject_Type(only));
  if (!its_type.is(tap.list_type)) return only;
  Py_DecRef(only);
  return nullptr;
}

// What tells calls apart, as far as it is not an object that has to be compared.
struct Looks {
  Line line;
  uint64_t dtype = 0;
  int64_t root = -1;
  int64_t asynchronous = 0;
};

bool read_options(const paramedic_tap_method& method, void* options, Looks& looks) {
  const paramedic_tap& tap = tap_of(method);
  const Held asynchronous(attribute(options, tap.name_asynchronous));
  looks.asynchronous = asynchronous.is(tap.yes) ? 1 : 0;
  if (looks.asynchronous == 0 && !asynchronous.is(tap.no)) return false;
  if (method.has_root == 0) return true;
  const Held root(attribute(options, tap.name_root));
  return as_integer(root.get(), looks.root);
}

bool is_same(const paramedic_tap_call& call, const paramedic_tap_method& method,
             const Looks& looks) {
  return call.code == looks.line.code && call.place == looks.line.place &&
         call.method == address_of(&method) && call.dtype == looks.dtype &&
         call.root == looks.root && call.asynchronous == looks.asynchronous;
}

bool is_equal(void* first, uint64_t second) {
  const int answer = PyObject_RichCompareBool(first, object_at(second), kEqual);
  if (answer < 0) PyErr_Clear();
  return answer == 1;
}

// Where such a call is written down. Addresses of objects are multiples of 16.
int64_t place_of(const Looks& looks, uint64_t sizes, uint64_t group) {
  uint64_t mixed = 0;
  for (const uint64_t part :
       {looks.line.code / 16, static_cast<uint64_t>(looks.line.place), looks.dtype / 16,
        static_cast<uint64_t>(looks.root), sizes, group / 16}) {
    mixed = (mixed ^ part) * 0x9E3779B97F4A7C15;  // the golden ratio: spreads what lies close
    mixed ^= mixed >> 32;
  }
  return static_cast<int64_t>(mixed % PARAMEDIC_TAP_CALLS);
}

// The call as it was made before; null, and `missed` says where to write it down, when it was not.
const paramedic_tap_call* find_call(const paramedic_tap_method& method, void* arguments) {
  paramedic_tap& tap = tap_of(method);
  tap.missed = -1;
  const ssize_t count = PyObject_Size(arguments);
  if (count < 0) PyErr_Clear();
  if (count < method.tensors + 3)
    return nullptr;  // the group, tensors, and the options behind them
  const Held options(PySequence_GetItem(arguments, count - 1));
  const Held argument(PySequence_GetItem(arguments, method.tensors + 1));
  const Held tensor(tensor_of(tap, argument.get()));
  const Held shape(attribute(tensor.get(), tap.name_shape));
  const Held dtype(attribute(tensor.get(), tap.name_dtype));
  if (shape.get() == nullptr || dtype.get() == nullptr) return nullptr;
  Looks looks;
  looks.dtype = address_of(dtype.get());
  if (!read_options(method, options.get(), looks) || !find_line(tap, looks.line)) return nullptr;
  const Held group(PySequence_GetItem(arguments, 0));
  const ssize_t sizes = PyObject_Hash(shape.get());
  if (sizes == -1) PyErr_Clear();
  tap.missed = place_of(looks, static_cast<uint64_t>(sizes), address_of(group.get()));
  const paramedic_tap_call& call = tap.calls[tap.missed];
  if (!is_same(call, method, looks) || !is_equal(shape.get(), call.shape)) return nullptr;
  const Held its_group(PyObject_CallFunctionObjArgs(object_at(call.group), nullptr));
  return its_group.is(address_of(group.get())) ? &call : nullptr;
}

// What a call is to the probe once it was entered.
struct Entered {
  int64_t number = -1;
  uint32_t group = 0;
};

bool read_step(const paramedic_tap& tap, int64_t& step) {
  const Held number(attribute(object_at(tap.session), tap.name_step));
  return as_integer(number.get(), step);
}

// The owner's pair for the call, as a new reference; null, and nothing is recorded, when there can
// be none.
void* enter(paramedic_tap& tap, const paramedic_tap_call& call, Entered& entered) {
  int64_t step = 0;
  if (!read_step(tap, step)) return nullptr;
  const Held number(PyIter_Next(object_at(call.numbers)));
  if (!as_integer(number.get(), entered.number)) return nullptr;
  const auto* record = static_cast<const paramedic_collective*>(object_at(call.record));
  entered.group = record->group;
  tap.count++;
  paramedic_collective_enter(probe_of(tap), step, entered.number, record);
  void* pair = PyTuple_Pack(2, object_at(call.call), number.get());
  if (pair == nullptr) PyErr_Clear();
  return pair;
}

void leave(paramedic_tap& tap, const Entered& entered) {
  int64_t step = 0;
  if (tap.probe == 0 || entered.number < 0 || !read_step(tap, step)) return;
  tap.count++;
  paramedic_collective_leave(probe_of(tap), step, entered.number, entered.group);
}

// The same for a pair that may be the owner's.
void leave_pair(paramedic_tap& tap, void* pair) {
  const Held call(PySequence_GetItem(pair, 0));
  const Held number(PySequence_GetItem(pair, 1));
  const Held group(attribute(call.get(), tap.name_group));
  Entered entered;
  int64_t id = 0;
  if (!as_integer(group.get(), id) || !as_integer(number.get(), entered.number)) return;
  entered.group = static_cast<uint32_t>(id);
  leave(tap, entered);
}

void put(uint64_t dict, const Held& key, void* value) {
  if (key.get() == nullptr || PyDict_SetItem(object_at(dict), key.get(), value) != 0) PyErr_Clear();
}

void take_out(uint64_t dict, const Held& key) {
  if (key.get() == nullptr || PyDict_DelItem(object_at(dict), key.get()) != 0) PyErr_Clear();
}

void* number_of(uint64_t number) { return PyLong_FromLongLong(static_cast<long long>(number)); }

void keep_work(paramedic_tap& tap, const void* work, void* pair) {
  if (PyDict_Size(object_at(tap.works)) >= tap.works_max) PyDict_Clear(object_at(tap.works));
  put(tap.works, Held(number_of(address_of(work))), pair);
}

}  // namespace

void* paramedic_tap_call_method(void* self, void* arguments, void* keywords) {
  const paramedic_tap_method& method = method_of(self);
  paramedic_tap& tap = tap_of(method);
  tap.missed = -1;
  const bool is_usual = tap.probe == 0 || keywords != nullptr;
  const paramedic_tap_call* known = is_usual ? nullptr : find_call(method, arguments);
  if (known == nullptr) return PyObject_Call(object_at(method.usual), arguments, keywords);
  // A copy with references of its own: whatever Python runs meanwhile may write down another call.
  const paramedic_tap_call call = *known;
  const Held owners(new_reference(call.call));
  const Held numbers(new_reference(call.numbers));
  Entered entered;
  const Held pair(enter(tap, call, entered));
  // Without its pair a call that was entered cannot be waited for; one that was not is the owner's.
  if (entered.number < 0) return PyObject_Call(object_at(method.usual), arguments, keywords);
  const Held thread(number_of(this_thread()));
  if (pair.get() != nullptr && call.asynchronous == 0) put(tap.inside, thread, pair.get());
  void* work = PyObject_Call(object_at(method.genuine), arguments, nullptr);
  if (work != nullptr && address_of(work) != tap.none && pair.get() != nullptr) {
    keep_work(tap, work, pair.get());
    return work;
  }
  const Aside error;
  take_out(tap.inside, thread);
  leave(tap, entered);
  return work;
}

void* paramedic_tap_wait(void* self, void* arguments, void* keywords) {
  const paramedic_tap_method& method = method_of(self);
  paramedic_tap& tap = tap_of(method);
  const Held work(PySequence_GetItem(arguments, 0));
  const Held key(work.get() == nullptr ? nullptr : number_of(address_of(work.get())));
  void* found =
      key.get() == nullptr ? nullptr : PyDict_GetItemWithError(object_at(tap.works), key.get());
  if (found == nullptr) {
    PyErr_Clear();
    return PyObject_Call(object_at(method.genuine), arguments, keywords);
  }
  const Held pair(new_reference(address_of(found)));
  take_out(tap.works, key);
  const Held thread(number_of(this_thread()));
  put(tap.inside, thread, pair.get());
  void* result = PyObject_Call(object_at(method.genuine), arguments, keywords);
  const Aside error;
  take_out(tap.inside, thread);
  leave_pair(tap, pair.get());
  return result;
}
