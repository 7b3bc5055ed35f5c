"""The native half of pace.py: `paramedic_pace` of the probe's library, and its functions."""

import ctypes
import sys
from typing import Any, Callable

from paramedic._native import METH_FASTCALL, METH_VARARGS_KEYWORDS, Native

MAX_BEATS = 512  # between two reports
# The clock of the thread costs 2 µs: of passes shorter than this, one in so many asks it.
LONG_PASS_NS = 2_000_000
SHORT_PASSES = 4

_OBJECTS = ("on_beat", "backward", "wait", "tensor_type", "none", "yes", "name_is_cpu")
_NUMBERS = (
    *("on", "waiting", "waited_ns", "in_backward", "passes", "pass_cpu_ns", "backward_cpu_ns"),
    *("beats", "beat_ns", "beat_waited_ns", "report_ns", "count"),
)


class State(ctypes.Structure):
    """paramedic_pace; see probe.h for what each number means."""

    _fields_ = [
        *((name, ctypes.c_uint64) for name in _OBJECTS),
        ("thread", ctypes.c_uint64),
        *((name, ctypes.c_int64) for name in _NUMBERS),
        ("self_us", ctypes.c_int64 * MAX_BEATS),
        ("wait_us", ctypes.c_int64 * MAX_BEATS),
    ]


class Clocks:
    """Functions that work on a state, in place of those of Python."""

    def __init__(self, state: State, on_beat: Callable[[], None]) -> None:
        """Raises OSError where there can be none."""
        self._native = native = Native(state)
        for name, thing in (("on_beat", on_beat), ("none", None), ("yes", True)):
            native.hold(name, thing)
        native.hold("name_is_cpu", sys.intern("is_cpu"))
        # Named like the hook in whose place it stands.
        self.beat = native.function("_step", "paramedic_pace_beat", METH_FASTCALL)

    def backward(self, genuine: Callable[..., Any], tensor_class: Any) -> Callable[..., Any]:
        """What stands for the function that runs a backward pass."""
        self._native.hold("backward", genuine)
        self._native.hold("tensor_type", tensor_class)
        return self._function("backward", "paramedic_pace_backward")

    def wait(self, genuine: Callable[..., Any]) -> Callable[..., Any]:
        """What stands for a function whose time is waiting."""
        self._native.hold("wait", genuine)
        return self._function("wait", "paramedic_pace_wait")

    def _function(self, name: str, body: str) -> Callable[..., Any]:
        return self._native.function(name, body, METH_VARARGS_KEYWORDS)
