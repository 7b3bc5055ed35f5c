"""The native half of quick.py: `paramedic_stretch` of the probe's library, and its functions."""

import ctypes
import sys
from typing import Any

from paramedic._native import METH_FASTCALL, Native
from paramedic.recovery.gate import Piece

MAX_LINES, MAX_RATES, MAX_OPTIMIZERS = 8, 32, 16

_OBJECTS = (
    *("on_step", "on_first", "on_keep", "on_due", "session"),
    *("tensor_type", "float32", "none", "yes", "no"),
)
# Names of attributes, and of the item of a group that is its learning rate.
_NAMES = {
    "name_step": "step",
    "name_code": "f_code",
    "name_place": "f_lasti",
    "name_dtype": "dtype",
    "name_is_cpu": "is_cpu",
    "name_data_ptr": "data_ptr",
    "name_grad": "grad",
    "name_groups": "param_groups",
    "name_rate": "lr",
}
_NUMBERS = (
    *("on", "is_first", "timed", "step", "last_step", "end_ns", "ask_step", "tick_ns"),
    *("tick_every_ns", "told_ns", "told_steps", "first_ns", "last_ns", "own_ns", "steps"),
    *("random_step", "forget_steps", "line_count", "optimizer_count"),
)


class Line(ctypes.Structure):
    """paramedic_stretch_line."""

    _fields_ = [
        ("code", ctypes.c_uint64),
        ("place", ctypes.c_int64),
        ("number", ctypes.c_int64),
        ("is_seen", ctypes.c_int64),
    ]


class Rate(ctypes.Structure):
    """paramedic_stretch_rate."""

    _fields_ = [("type", ctypes.c_uint64), ("value", ctypes.c_double), ("number", ctypes.c_int64)]


class Optimizer(ctypes.Structure):
    """paramedic_stretch_optimizer."""

    _fields_ = [
        ("optimizer", ctypes.c_uint64),
        ("parameter", ctypes.c_uint64),
        ("first_rate", ctypes.c_int64),
        ("rate_count", ctypes.c_int64),
        ("last_step", ctypes.c_int64),
        ("is_stepped", ctypes.c_int64),
        ("steps", ctypes.c_int64),
    ]


class State(ctypes.Structure):
    """paramedic_stretch."""

    _fields_ = [
        *((name, ctypes.c_uint64) for name in _OBJECTS),
        *((name, ctypes.c_uint64) for name in _NAMES),
        ("numbers", ctypes.c_uint64),
        ("thread", ctypes.c_uint64),
        *((name, ctypes.c_int64) for name in _NUMBERS),
        ("random", Piece),
        ("lines", Line * MAX_LINES),
        ("optimizers", Optimizer * MAX_OPTIMIZERS),
        ("rates", Rate * MAX_RATES),
    ]


class Stretch:
    """The structure and its two functions; see probe.h for what each number means."""

    def __init__(self, torch: Any, session: Any) -> None:
        """Raises OSError where there can be none."""
        self.state = State()
        self._native = native = Native(self.state)
        self.hold, self.let_go = native.hold, native.let_go
        self.loss = native.function("keep_loss", "paramedic_stretch_loss", METH_FASTCALL)
        # Named like the hook in whose place it stands.
        self.step = native.function("_before", "paramedic_stretch_step", METH_FASTCALL)
        for name, attribute in _NAMES.items():
            native.hold(name, sys.intern(attribute))
        for name, thing in (("none", None), ("yes", True), ("no", False)):
            native.hold(name, thing)
        native.hold("tensor_type", torch.Tensor)
        native.hold("float32", torch.float32)
        native.hold("session", session)
        self._piece = Piece()

    def piece(self, address: int, size: int) -> memoryview:
        """Where `size` bytes at `address` are kept from now on: there is room for one."""
        kept = ctypes.create_string_buffer(size)
        self._piece = Piece(address, ctypes.addressof(kept), size)
        return memoryview(kept).cast("B")

    def keep_piece(self, wanted: bool) -> None:
        """Whether it is kept after each step of the stretch that begins."""
        self.state.random = self._piece if wanted else Piece()
        self.state.random_step = -1
