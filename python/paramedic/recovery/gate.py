"""What stands where a training loop tells of itself: native functions that Python calls.

As a rule an iteration leaves nothing to do but to keep the random state; that is done in
`src/probe/gate.cc` without one instruction of Python, whose code is in no cache between two
operations of a framework. What is more comes back here as a call. Needs an interpreter with a GIL.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, Callable, List, Optional

from paramedic._native import METH_FASTCALL, METH_NOARGS, METH_O, Native

MAX_PIECES, MAX_VALUES, MAX_OWNERS, MAX_CLEARERS = 16, 8, 8, 32


class Piece(ctypes.Structure):
    """paramedic_gate_piece."""

    _fields_ = [("live", ctypes.c_uint64), ("kept", ctypes.c_uint64), ("bytes", ctypes.c_int64)]


class Value(ctypes.Structure):
    """paramedic_gate_value."""

    _fields_ = [("object", ctypes.c_uint64), ("name", ctypes.c_uint64), ("kept", ctypes.c_uint64)]


class Owner(ctypes.Structure):
    """paramedic_gate_owner."""

    _fields_ = [
        ("object", ctypes.c_uint64),
        ("steps", ctypes.c_int64),
        ("steps_at_mark", ctypes.c_int64),
        ("cleared", ctypes.c_int64),
        ("idle", ctypes.c_int64),
        ("had_none", ctypes.c_int64),
    ]


class Clearer(ctypes.Structure):
    """paramedic_gate_clearer."""

    _fields_ = [("object", ctypes.c_uint64), ("owners", ctypes.c_uint64)]


_ADDRESSES = (
    "on_mark",
    "on_keep",
    "on_change",
    "on_step",
    "on_clear",
    "on_level",
    "none",
    "modules",
    "loop",
    "thread",
    "sequence",
)
_NUMBERS = (
    "sequence_at_mark",
    "module_count",
    "marks",
    "look_at",
    "may_skip",
    "changed",
    "skipped",
    "zeroed",
    "piece_count",
    "value_count",
    "owner_count",
    "clearer_count",
)


class State(ctypes.Structure):
    """paramedic_gate."""

    _fields_ = [
        *((name, ctypes.c_uint64) for name in _ADDRESSES),
        *((name, ctypes.c_int64) for name in _NUMBERS),
        ("pieces", Piece * MAX_PIECES),
        ("values", Value * MAX_VALUES),
        ("owners", Owner * MAX_OWNERS),
        ("clearers", Clearer * MAX_CLEARERS),
    ]


class Gate:
    """One gate. What `state` names by address is held in here; see probe.h for what each means."""

    def __init__(self) -> None:
        """Raises OSError where there can be none."""
        self.state = State()
        self._native = native = Native(self.state)
        # Not as ctypes calls it, which would give up the GIL meanwhile.
        keep = ctypes.cast(native.library.paramedic_gate_keep, ctypes.c_void_p).value
        self._keep: Callable[[int], None] = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(keep or 0)
        self._buffers: List[Any] = []
        self.hold, self.let_go = native.hold, native.let_go
        self.hold("none", None)
        self.hold("modules", sys.modules)
        self.mark = native.function("iteration_started", "paramedic_gate_mark", METH_O)
        self.cleared = native.function("cleared", "paramedic_gate_cleared", METH_O)
        self.backward = native.function("getEffectiveLevel", "paramedic_gate_backward", METH_NOARGS)
        self.step = native.function("before_step", "paramedic_gate_step", METH_FASTCALL)

    def piece(self, address: int, size: int) -> Optional[memoryview]:
        """Keeps `size` bytes at `address` at each mark from now on; answers where, None where there
        is no more room. The caller sees to it that the bytes stay."""
        state = self.state
        if state.piece_count >= MAX_PIECES:
            return None
        kept = ctypes.create_string_buffer(ctypes.string_at(address, size), size)
        self._buffers.append(kept)
        state.pieces[state.piece_count] = Piece(address, ctypes.addressof(kept), size)
        state.piece_count += 1
        return memoryview(kept).cast("B")

    def value(self, thing: Any, name: str) -> Optional[Value]:
        """Keeps an attribute of `thing` at each mark from now on; None where there is no room."""
        state = self.state
        if state.value_count >= MAX_VALUES:
            return None
        name = sys.intern(name)
        self._buffers.append((thing, name))
        value: Value = state.values[state.value_count]
        value.object, value.name = id(thing), id(name)
        state.value_count += 1
        self.keep()
        return value

    def keep(self) -> None:
        """Keeps pieces and values as they are now."""
        self._keep(ctypes.addressof(self.state))

    def own(self, optimizers: List[int]) -> None:
        """The optimizers whose steps are counted, by id; what was known of each stays known."""
        state = self.state
        known = {owner.object: bytes(owner) for owner in state.owners[: state.owner_count]}
        state.owner_count = min(len(optimizers), MAX_OWNERS)
        for at, optimizer in enumerate(optimizers[:MAX_OWNERS]):
            before = known.get(optimizer)
            state.owners[at] = (
                Owner(optimizer) if before is None else Owner.from_buffer_copy(before)
            )
        self.forget_clearers()

    def owner(self, optimizer: int) -> Optional[Owner]:
        """What is known of an optimizer."""
        state = self.state
        for at in range(state.owner_count):
            if state.owners[at].object == optimizer:
                owner: Owner = state.owners[at]
                return owner
        return None

    def add_clearer(self, thing: int, optimizers: List[int]) -> None:
        """`zero_grad` of the object with this id takes away the gradients of these optimizers."""
        state = self.state
        if state.clearer_count >= MAX_CLEARERS:
            return
        owners = [owner.object for owner in state.owners[: state.owner_count]]
        bits = sum(1 << at for at, owner in enumerate(owners) if owner in optimizers)
        state.clearers[state.clearer_count] = Clearer(thing, bits)
        state.clearer_count += 1
        for at in range(state.owner_count):
            if bits >> at & 1:
                state.owners[at].cleared = 1
                state.owners[at].idle = 0

    def forget_clearers(self) -> None:
        """Objects may have died, and others be where they were."""
        self.state.clearer_count = 0


def kept(value: Value) -> Any:
    """The object that a value was at the mark; None where it was not there."""
    return ctypes.cast(value.kept, ctypes.py_object).value if value.kept else None
