"""A crash, from the barrier that meets it to the frame that goes on.

`met` is called in the crashed thread with all frames still there. Where nobody up the stack would
handle the exception, the Decider is asked, its repair is carried out, and a continuation takes the
frame's place. A repair that goes on in an outer frame, or outside a block of this one, lets the
exception pass as far as that, so that everything left on the way is left as the language has it.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, Optional

from paramedic.recovery import (
    dialogue,
    dry_run,
    edited,
    emergency,
    handled,
    repairs,
    script,
    stack,
    written,
)
from paramedic.recovery.crash import Crash, Decider, Refused, Repair
from paramedic.recovery.runtime import Leave, Runtime, note

MAX_REFUSED = 1000  # repairs that one crash may see before it fails
MAX_CONTEXTS = 100


class _Thread(threading.local):
    """What a thread is in the middle of."""

    def __init__(self) -> None:
        self.busy = False  # our own code is at work
        self.failing: Optional[BaseException] = None  # nobody repaired it: it passes every barrier
        self.moving: Optional[_Move] = None
        self.repeats = stack.Repeats()


@dataclass
class _Move:
    """An exception that still has to unwind to where the job goes on."""

    plan: repairs.Plan
    crash: Crash
    repair: Repair
    decider: Decider
    took_ms: Dict[str, float]


_thread = _Thread()
_connect: Optional[Callable[[], Optional[Decider]]] = None


def decided_by(connect: Optional[Callable[[], Optional[Decider]]]) -> None:
    """Who decides about crashes; None: the agent of the run."""
    global _connect
    _connect = connect


def met(
    runtime: Runtime, key: int, region: int, cells: Any, error: BaseException, frame: Any
) -> Optional[Leave]:
    """An exception has reached a barrier of `frame`.

    Args:
        runtime: of the code of `frame`.
        key: of its function in the source.
        region: of the barrier: 0 for the whole function, else the number of a statement.
        cells: None, or a function whose closure has the cells that `frame` shares.

    Returns:
        How the frame goes on, or None where the exception is to pass.
    """
    if _thread.busy:
        return None
    if _thread.failing is not None and _comes_of(error, _thread.failing):
        script.without_own_frames(error.__traceback__)
        return None
    move = _thread.moving
    if move is not None:
        if move.crash.exception is not error:
            _thread.moving = None
        elif frame is move.plan.standing.frame and region == move.plan.region:
            _thread.moving = None
            leave = _arrive(move, cells)
            if leave is not None:
                return leave
        else:
            return None
    if not _may_hold(error):
        return None
    # First: a program may raise and handle a million times.
    if handled.is_handled(frame, frame.f_lasti, error):
        return None
    standing = stack.standing_at_crash(runtime, key, region, frame, error)
    if standing is None:
        return None
    _thread.busy = True
    try:
        return _hold(standing, region, cells, error)
    finally:
        _thread.busy = False


def _comes_of(error: BaseException, failing: BaseException) -> bool:
    """Whether `error` is `failing`, or was raised by what handled it or cleaned up after it."""
    current: Optional[BaseException] = error
    for _ in range(MAX_CONTEXTS):
        if current is None or current is failing:
            break
        context = current.__context__
        current = context if context is not None else current.__cause__
    return current is failing


class _NoCollection:
    """Trees are many small objects: a full collection on their account takes many times as long."""

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_on:
            gc.enable()


def _may_hold(error: BaseException) -> bool:
    if isinstance(error, KeyboardInterrupt):
        return _interrupt_is_offered()
    if not isinstance(error, Exception):
        return False
    if isinstance(error, (StopIteration, StopAsyncIteration)):
        return False
    # A worker of a DataLoader hands its exception to the process that trains.
    worker: Any = sys.modules.get("torch.utils.data._utils.worker")
    return getattr(worker, "_worker_info", None) is None


def _interrupt_is_offered() -> bool:
    """Whether Ctrl-C asks for a repair; two of them end the job."""
    try:
        offers = getattr(dialogue, "offers_interrupt", None)
        return offers is not None and bool(offers())
    except Exception:
        return False


def _decider() -> Optional[Decider]:
    if _connect is not None:
        return _connect()
    decider: Decider = dialogue.connect()
    return decider


def _hold(
    standing: stack.Standing, region: int, cells: Any, error: BaseException
) -> Optional[Leave]:
    began = time.perf_counter()
    standings = stack.standings(standing)
    crash = Crash(
        error,
        [one.project_frame() for one in standings],
        threading.current_thread().name,
        _thread.repeats.count(standing, error),
    )
    decider = _decider()
    if decider is None:
        _thread.failing = error
        return None
    took = {"find": (time.perf_counter() - began) * 1e3}
    standing.half = written.half_done(standing)
    for _ in range(MAX_REFUSED):
        repair = decider.ask(crash)
        if repair is None:
            break
        if repair.kind == "abort":
            emergency.on_abort(crash)
            break
        began = time.perf_counter()
        try:
            with _NoCollection():
                plan = repairs.plan(crash, repair, standings, region)
                took["plan"] = (time.perf_counter() - began) * 1e3
                if plan.edit is not None:
                    # Whether it is accepted: no part of the repair, as little as who decides.
                    plan = dry_run.checked(plan)
                    notes = [one for one in (plan.note, edited.begun(plan)) if one]
                    if notes:
                        options = {**(repair.options or {}), "note": "; ".join(notes)}
                        repair = replace(repair, options=options)
                return _carry_out(plan, crash, repair, decider, took, cells)
        except Refused as refused:
            decider.refused(crash, repair, str(refused))
        except Exception as own:
            note("a repair", own)
            decider.refused(crash, repair, f"{type(own).__name__}: {own}")
    _thread.failing = error
    return None


def _carry_out(
    plan: repairs.Plan,
    crash: Crash,
    repair: Repair,
    decider: Decider,
    took: Dict[str, float],
    cells: Any,
) -> Optional[Leave]:
    """Goes on in this frame, or sends the exception to the frame that goes on."""
    began = time.perf_counter()
    leave = None
    if plan.rerun is not None:
        # What is run again calls what the edit has changed.
        plan.check()
        plan.commit()
    if plan.in_place:
        leave = plan.leave(crash.exception, cells)
    elif plan.rerun is None:
        plan.check()
    if plan.rerun is None:
        plan.commit()
    _thread.repeats.repaired(plan)
    took["build"] = (time.perf_counter() - began) * 1e3
    if leave is None:
        _thread.moving = _Move(plan, crash, repair, decider, took)
        return None
    plan.let_go()
    decider.resumed(crash, repair, took)
    return leave


def _arrive(move: _Move, cells: Any) -> Optional[Leave]:
    """The frame that goes on has got the exception; None where it cannot, after all."""
    began = time.perf_counter()
    _thread.busy = True
    try:
        leave = move.plan.leave(move.crash.exception, cells)
        move.plan.let_go()
        move.took_ms["arrive"] = (time.perf_counter() - began) * 1e3
        move.decider.resumed(move.crash, move.repair, move.took_ms)
        return leave
    except Refused as refused:
        # Its frames are gone: what follows is a crash of this frame, which is asked about anew.
        move.decider.refused(move.crash, move.repair, str(refused))
        return None
    finally:
        _thread.busy = False
