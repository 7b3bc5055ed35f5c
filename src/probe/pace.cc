// Where the thread that trains waits for other ranks, and its beats
// (python/paramedic/adapters/common/pace.py).
//
// What the genuine functions raise is the job's, and is passed on untouched: around them nothing is
// asked of the interpreter.

#include "probe/interpreter.h"
#include "probe/probe.h"

using paramedic::probe::attribute;
using paramedic::probe::clock_ns;
using paramedic::probe::Held;
using paramedic::probe::new_reference;
using paramedic::probe::now_ns;
using paramedic::probe::object_at;
using paramedic::probe::this_thread;

namespace {

paramedic_pace* pace_of(void* capsule) {
  return static_cast<paramedic_pace*>(PyCapsule_GetPointer(capsule, nullptr));
}

bool is_own_thread(const paramedic_pace& pace) { return pace.thread == this_thread(); }

// On a device the host's clock tells nothing of what is computed.
bool is_on_cpu(const paramedic_pace& pace, void* arguments) {
  const Held tensor(PySequence_GetItem(arguments, 0));
  if (tensor.get() == nullptr) return false;
  const Held type(PyObject_Type(tensor.get()));
  if (!type.is(pace.tensor_type)) return false;
  const Held is_cpu(attribute(tensor.get(), pace.name_is_cpu));
  return is_cpu.is(pace.yes);
}

// Between two reports, of a job whose first beat was told.
bool is_usual_beat(const paramedic_pace& pace, int64_t now) {
  return pace.beats > 0 && now < pace.report_ns && pace.count + 1 < PARAMEDIC_PACE_BEATS &&
         is_own_thread(pace);
}

void keep_beat(paramedic_pace& pace, int64_t now) {
  const int64_t wait = pace.waited_ns - pace.beat_waited_ns;
  pace.self_us[pace.count] = (now - pace.beat_ns - wait) / 1000;
  pace.wait_us[pace.count] = wait / 1000;
  pace.count++;
  pace.beats++;
  pace.beat_ns = now;
  pace.beat_waited_ns = pace.waited_ns;
}

}  // namespace

void* paramedic_pace_beat(void* self, void* const* /*arguments*/, int64_t /*count*/) {
  paramedic_pace& pace = *pace_of(self);
  if (pace.on == 0) return new_reference(pace.none);
  const int64_t now = now_ns();
  if (!is_usual_beat(pace, now)) {
    return PyObject_CallFunctionObjArgs(object_at(pace.on_beat), nullptr);
  }
  keep_beat(pace, now);
  return new_reference(pace.none);
}

void* paramedic_pace_backward(void* self, void* arguments, void* keywords) {
  paramedic_pace& pace = *pace_of(self);
  void* const genuine = object_at(pace.backward);
  if (pace.in_backward != 0 || !is_own_thread(pace) || !is_on_cpu(pace, arguments)) {
    return PyObject_Call(genuine, arguments, keywords);
  }
  pace.in_backward = 1;
  pace.passes++;
  const bool asks = pace.pass_cpu_ns > PARAMEDIC_PACE_LONG_PASS_NS ||
                    pace.passes % PARAMEDIC_PACE_SHORT_PASSES == 0;
  const int64_t cpu_ns = asks ? clock_ns(CLOCK_THREAD_CPUTIME_ID) : 0;
  const int64_t waited_ns = pace.waited_ns;
  const int64_t start_ns = now_ns();
  void* const result = PyObject_Call(genuine, arguments, keywords);
  const int64_t took_ns = now_ns() - start_ns;
  if (asks) pace.pass_cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
  const int64_t blocked_ns = took_ns - pace.pass_cpu_ns - (pace.waited_ns - waited_ns);
  if (blocked_ns > 0) pace.waited_ns += blocked_ns;
  pace.backward_cpu_ns += pace.pass_cpu_ns;
  pace.in_backward = 0;
  return result;
}

void* paramedic_pace_wait(void* self, void* arguments, void* keywords) {
  paramedic_pace& pace = *pace_of(self);
  void* const genuine = object_at(pace.wait);
  if (pace.waiting != 0 || !is_own_thread(pace)) return PyObject_Call(genuine, arguments, keywords);
  const int64_t start_ns = pace.waiting = now_ns();
  void* const result = PyObject_Call(genuine, arguments, keywords);
  pace.waiting = 0;
  pace.waited_ns += now_ns() - start_ns;
  return result;
}
