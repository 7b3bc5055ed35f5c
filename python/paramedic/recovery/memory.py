"""Gives memory back after a crash for want of it, before anything is tried again."""

from __future__ import annotations

import ctypes
import gc
import sys
from types import FrameType, TracebackType
from typing import Any, Iterator, List, Optional

from paramedic.recovery.crash import Crash
from paramedic.recovery.found import local_values

MAX_ITEMS = 1000  # of a container
MAX_CAUSES = 20
_GENERATORS = 0x20 | 0x80 | 0x200  # generator, coroutine, asynchronous generator


def library_frames(crash: Crash) -> List[FrameType]:
    """The frames that the crashed statement had called, outermost first."""
    frames = list(_frames(crash.exception.__traceback__))
    crashed = crash.frames[-1].frame if crash.frames else None
    for index in range(len(frames) - 1, -1, -1):
        if frames[index] is crashed:
            return frames[index + 1 :]
    return frames


def frames_inside(crash: Crash, outer: Optional[FrameType]) -> List[FrameType]:
    """The frames that `outer`, by default the crashed one, has called, outermost first. Those
    around the crashed frame are still running; the others are in the traceback."""
    running: List[FrameType] = []
    frame = crash.frames[-1].frame if crash.frames and outer is not None else None
    while frame is not None and frame is not outer:
        running.append(frame)
        frame = frame.f_back
    return [*(reversed(running) if frame is outer else ()), *library_frames(crash)]


def free(crash: Crash) -> None:
    """Lets go what the crash holds: the variables of library frames that have ended, and caches.
    Project frames keep theirs, and can be run again."""
    for frame in library_frames(crash):
        _clear(frame)
    project = {id(known.frame) for known in crash.frames}
    error: Optional[BaseException] = crash.exception
    for _ in range(MAX_CAUSES):
        error = None if error is None else error.__cause__ or error.__context__
        if error is None:
            break
        for frame in _frames(error.__traceback__):
            if id(frame) not in project:
                _clear(frame)
    _collect()


def cut(crash: Crash, since: int) -> None:
    """Takes the graphs that an iteration has made off the tensors in project frames.

    Args:
        crash: its iteration is going to be run again from its start.
        since: autograd's sequence number at the start of the iteration: graphs that are older,
            carried from iteration to iteration, go on. Negative: all graphs stay.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or since < 0:
        return
    for known in crash.frames:
        for _, value in local_values(known.frame):
            for tensor in _tensors(torch, value):
                _cut(tensor, since)
    _collect()


def _frames(trace: Optional[TracebackType]) -> Iterator[FrameType]:
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next


def _clear(frame: FrameType) -> None:
    if frame.f_code.co_flags & _GENERATORS:
        return  # it may be suspended, and would be closed
    try:
        frame.clear()
    except RuntimeError:
        return  # it is still running


def _tensors(torch: Any, value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple, dict)) and len(value) <= MAX_ITEMS:
        for item in value.values() if isinstance(value, dict) else value:
            if isinstance(item, torch.Tensor):
                yield item


def _cut(tensor: Any, since: int) -> None:
    node = tensor.grad_fn
    if node is None or node._sequence_nr() < since:
        return
    try:
        tensor.detach_()
    except RuntimeError:
        return  # a view


def _collect() -> None:
    gc.collect()
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()
        mps: Any = sys.modules.get("torch.mps")
        if mps is not None and torch.backends.mps.is_available():
            mps.empty_cache()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        return  # another C library than glibc
