"""The managers of `with` blocks, held so that a block can stay open while a crash passes.

A `Held` has the genuine bound methods in slots called `__enter__` and `__exit__`, so the
interpreter calls those and no frame of ours stands in a traceback. `__exit__` is wrapped in a
`partial`, whose target can be changed after the block was entered: that lets the frame of a crashed
function leave the block without closing it, which its continuation will do. About 0.3 µs a block.
"""

from __future__ import annotations

from functools import partial
from typing import Any


class Held:
    """What a transformed `with` enters in place of the manager."""

    __slots__ = ("manager", "__enter__", "__exit__")
    manager: Any
    __enter__: Any
    __exit__: Any


class HeldAsync:
    """What a transformed `async with` enters in place of the manager."""

    __slots__ = ("manager", "__aenter__", "__aexit__")
    manager: Any
    __aenter__: Any
    __aexit__: Any


def hold(manager: Any) -> Any:
    """A stand-in for `manager`, or what is no manager itself, so that `with` says so."""
    try:
        kind = type(manager)
        kind.__enter__, kind.__exit__  # noqa: B018
        enter, leave = manager.__enter__, manager.__exit__
    except Exception:
        return manager
    held = Held()
    held.manager = manager
    held.__enter__ = enter
    held.__exit__ = partial(leave)
    return held


def hold_async(manager: Any) -> Any:
    """`hold` for `async with`."""
    try:
        kind = type(manager)
        kind.__aenter__, kind.__aexit__  # noqa: B018
        enter, leave = manager.__aenter__, manager.__aexit__
    except Exception:
        return manager
    held = HeldAsync()
    held.manager = manager
    held.__aenter__ = enter
    held.__aexit__ = partial(leave)
    return held


def let_go(held: Any) -> None:
    """The frame that entered the block may leave it now: the block stays open."""
    if isinstance(held, Held):
        held.__exit__.__setstate__((_stay, (), {}, None))
    elif isinstance(held, HeldAsync):
        held.__aexit__.__setstate__((_stay_async, (), {}, None))


def enter_again(held: Any) -> Any:
    """Stands for a block that is open already: entering does nothing, leaving closes it."""
    if isinstance(held, Held):
        again = Held()
        again.manager = held.manager
        again.__enter__ = _nothing
        again.__exit__ = partial(held.manager.__exit__)
        return again
    if isinstance(held, HeldAsync):
        again_async = HeldAsync()
        again_async.manager = held.manager
        again_async.__aenter__ = _nothing_async
        again_async.__aexit__ = partial(held.manager.__aexit__)
        return again_async
    return held


def _stay(*_: Any) -> bool:
    return False


async def _stay_async(*_: Any) -> bool:
    return False


def _nothing() -> None:
    return None


async def _nothing_async() -> None:
    return None
