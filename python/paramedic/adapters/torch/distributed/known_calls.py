"""Collectives that were called before from the same line on tensors of the same shape.

They are recorded by native functions (`paramedic_tap` of the probe's library): found by the line,
entered, left, without an instruction of Python. Any other call goes to the usual way, in Python,
which writes it down here. Where there can be no native functions every call goes that way.
"""

import ctypes
import sys
from typing import Any, Callable, Dict, List, Tuple

from paramedic._native import METH_VARARGS_KEYWORDS, Native
from paramedic.adapters.common.source import Source
from paramedic.adapters.torch.session import Session

MAX_CALLS, MAX_METHODS, MAX_PASSED = 512, 32, 64

_OBJECTS = ("inside", "works", "list_type", "none", "yes", "no")
# Names of attributes.
_NAMES = {
    "name_step": "step",
    "name_code": "f_code",
    "name_place": "f_lasti",
    "name_back": "f_back",
    "name_shape": "shape",
    "name_dtype": "dtype",
    "name_asynchronous": "asyncOp",
    "name_root": "rootRank",
    "name_group": "group_id",
}


class MethodState(ctypes.Structure):
    """paramedic_tap_method."""

    _fields_ = [
        ("tap", ctypes.c_uint64),
        ("genuine", ctypes.c_uint64),
        ("usual", ctypes.c_uint64),
        ("tensors", ctypes.c_int64),
        ("has_root", ctypes.c_int64),
    ]


class CallState(ctypes.Structure):
    """paramedic_tap_call."""

    _fields_ = [
        ("code", ctypes.c_uint64),
        ("place", ctypes.c_int64),
        *((name, ctypes.c_uint64) for name in ("method", "group", "shape", "dtype")),
        ("root", ctypes.c_int64),
        ("asynchronous", ctypes.c_int64),
        *((name, ctypes.c_uint64) for name in ("call", "numbers", "record")),
    ]


class State(ctypes.Structure):
    """paramedic_tap."""

    _fields_ = [
        ("probe", ctypes.c_uint64),
        ("session", ctypes.c_uint64),
        *((name, ctypes.c_uint64) for name in _OBJECTS),
        *((name, ctypes.c_uint64) for name in _NAMES),
        *((name, ctypes.c_int64) for name in ("works_max", "count", "missed", "passed_count")),
        ("passed", ctypes.c_uint64 * MAX_PASSED),
        ("methods", MethodState * MAX_METHODS),
        ("calls", CallState * MAX_CALLS),
    ]


class KnownCalls:
    """The structure, and the functions that stand for methods of groups."""

    def __init__(
        self,
        session: Session,
        source: Source,
        works: Tuple[Dict[int, Any], int],
        inside: Dict[int, Any],
    ) -> None:
        """Raises OSError where there can be none.

        Args:
            works: what was started and not waited for, and how much of it is kept.
            inside: by thread, the call that it is inside of.
        """
        self._session = session
        self._source = source
        self._state = state = State(works_max=works[1], missed=-1)
        self._native = native = Native(state)
        for name, attribute in _NAMES.items():
            native.hold(name, sys.intern(attribute))
        for name, thing in zip(_OBJECTS, (inside, works[0], list, None, True, False)):
            native.hold(name, thing)
        native.hold("session", session)
        # What the functions and the calls need stays: by the number of the place.
        self._methods: List[Any] = []
        self._calls: Dict[int, Any] = {}
        self._passed: List[Any] = []
        session.on_close.append(self.stop)

    def method(self, genuine: Any, usual: Any, tensors: int, has_root: bool) -> Tuple[int, Any]:
        """(its number, what stands for a method of a class).

        Args:
            genuine: the method.
            usual: what is called in its place where a call is not known.
            tensors: which argument, behind the group, has the tensors.
            has_root: whether the last argument names a root.
        """
        number = len(self._methods)
        if number >= MAX_METHODS:
            raise OSError("there are more methods than places")
        self._methods.append((genuine, usual))
        part = self._state.methods[number]
        part.tap = ctypes.addressof(self._state)
        part.genuine, part.usual = id(genuine), id(usual)
        part.tensors, part.has_root = tensors, int(has_root)
        return number, self._function(genuine, "paramedic_tap_call_method", part)

    def wait(self, genuine: Any) -> Any:
        """What stands for the method that waits for what a call returned."""
        number = len(self._methods)
        self._methods.append(genuine)
        part = self._state.methods[number]
        part.tap, part.genuine = ctypes.addressof(self._state), id(genuine)
        return self._function(genuine, "paramedic_tap_wait", part)

    def _function(self, genuine: Any, body: str, part: Any) -> Callable[..., Any]:
        return self._native.function(genuine.__name__, body, METH_VARARGS_KEYWORDS, part)

    @property
    def count(self) -> int:
        """Calls entered and left here."""
        return int(self._state.count)

    def start(self) -> None:
        """Calls may be recorded here from now on."""
        if not self._state.probe and self._session.probe is not None:
            self._state.probe = self._session.probe.address

    def stop(self) -> None:
        """All calls go the usual way."""
        self._state.probe = 0

    def write_down(
        self, number: int, caller: Any, spot: Any, call: Any, looks: Tuple[Any, Any, int]
    ) -> None:
        """Remembers the call that was just asked for.

        Args:
            number: of the method.
            caller: the frame that calls it.
            spot: the user's frame, or None.
            call: has `process_group` (a Group), `pointer`, `record` and `asynchronous`.
            looks: shape and type of its only tensor; its root as the call names it, or -1.
        """
        state = self._state
        place = state.missed
        if place < 0 or spot is None or not self._source.is_user(spot.f_code):
            return
        self._pass(caller, spot)
        group, (shape, dtype, root) = call.process_group, looks
        held = (spot.f_code, group.reference, shape, dtype, call, group.numbers)
        state.calls[place] = CallState(
            id(held[0]),
            spot.f_lasti,
            ctypes.addressof(state.methods[number]),
            id(held[1]),
            id(held[2]),
            id(held[3]),
            root,
            int(call.asynchronous),
            id(held[4]),
            id(held[5]),
            ctypes.addressof(call.record),
        )
        self._calls[place] = held

    def _pass(self, frame: Any, spot: Any) -> None:
        """Code from `frame` up to the user's is passed over from now on."""
        while frame is not None and frame is not spot:
            code = frame.f_code
            if len(self._passed) < MAX_PASSED and not any(code is one for one in self._passed):
                self._state.passed[len(self._passed)] = id(code)
                self._passed.append(code)
                self._state.passed_count = len(self._passed)
            frame = frame.f_back

    def reset(self) -> None:
        """Forgets all calls."""
        self.stop()
        ctypes.memset(self._state.calls, 0, ctypes.sizeof(self._state.calls))
        self._state.count = 0
        self._calls.clear()
