"""The native half of quick.py: `paramedic_stretch` of the probe's library, and its functions."""

import ctypes
import sys
from typing import Any, Callable

from paramedic._native import METH_FASTCALL, Native
from paramedic.adapters.torch import tensor_layout
from paramedic.recovery.gate import Piece

MAX_LINES, MAX_RATES, MAX_OPTIMIZERS = 8, 32, 16

# Names of attributes, and of the item of a group that is its learning rate.
_NAMES = {
    "name_back": "f_back",
    "name_code": "f_code",
    "name_place": "f_lasti",
    "name_groups": "param_groups",
    "name_rate": "lr",
}


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
        ("on", ctypes.c_int64),
        ("thread", ctypes.c_uint64),
        *((name, ctypes.c_uint64) for name in ("run", "on_backward")),
        *((name, ctypes.c_uint64) for name in ("tensor_type", "none", *_NAMES)),
        ("layout", tensor_layout.Layout),
        *((name, ctypes.c_int64) for name in ("line_count", "optimizer_count")),
        *((name, ctypes.c_uint64) for name in ("gate", "numbers", "progress")),
        *((name, ctypes.c_int64) for name in ("step", "last_step", "end_ns", "steps", "last_ns")),
        *((name, ctypes.c_int64) for name in ("ask_step", "tick_ns", "forget_steps")),
        ("on_keep", ctypes.c_uint64),
        ("random", Piece),
        *((name, ctypes.c_int64) for name in ("random_step", "is_first", "timed")),
        *((name, ctypes.c_uint64) for name in ("on_step", "on_first", "on_due")),
        *((name, ctypes.c_int64) for name in ("tick_every_ns", "told_ns", "told_steps")),
        *((name, ctypes.c_int64) for name in ("first_ns", "own_ns")),
        ("lines", Line * MAX_LINES),
        ("optimizers", Optimizer * MAX_OPTIMIZERS),
        ("rates", Rate * MAX_RATES),
    ]


class Stretch:
    """The structure and its two functions; see probe.h for what each number means."""

    def __init__(self, torch: Any, session: Any) -> None:
        """Raises OSError where there can be none."""
        self.state = state = State(layout=tensor_layout.find(torch))
        self._native = native = Native(state)
        self.hold, self.let_go = native.hold, native.let_go
        # Named like the hook in whose place it stands.
        self.step = native.function("_before", "paramedic_stretch_step", METH_FASTCALL)
        for name, attribute in _NAMES.items():
            native.hold(name, sys.intern(attribute))
        native.hold("none", None)
        native.hold("tensor_type", torch.Tensor)
        state.progress = ctypes.addressof(session)
        self._piece = Piece()

    def backward(
        self, genuine: Callable[..., Any], usual: Callable[..., Any]
    ) -> Callable[..., Any]:
        """What stands for the framework's `backward`; `usual` is called for a pass that is none of
        the stretch."""
        self.hold("run", genuine)
        self.hold("on_backward", usual)
        return self._native.stand_in(genuine, "paramedic_stretch_backward")

    def piece(self, address: int, size: int) -> memoryview:
        """Where `size` bytes at `address` are kept from now on: there is room for one."""
        kept = ctypes.create_string_buffer(size)
        self._piece = Piece(address, ctypes.addressof(kept), size)
        return memoryview(kept).cast("B")

    def keep_piece(self, wanted: bool) -> None:
        """Whether it is kept after each step of the stretch that begins."""
        self.state.random = self._piece if wanted else Piece()
        self.state.random_step = -1
