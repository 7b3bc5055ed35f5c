"""Iterators that an exception has ended, made to go on.

A generator dies of an exception that passes through it, and a loop over it would end silently: the
rest of the epoch lost. What it drew its items from is still in the frames of the traceback; from
there the loop goes on, inside the same `enumerate`, `zip` or progress bar.
"""

from __future__ import annotations

import types
from typing import Any, Dict, Iterator, List, Optional

from paramedic.recovery.crash import Refused
from paramedic.recovery.source import number_of

MAX_ENTRIES = 1000
MAX_DEPTH = 10
_WRAPPERS = (enumerate, zip, map, filter)


def revive(standing: Any, path: Any, hidden: Dict[str, Any], error: BaseException) -> None:
    """Replaces the iterator of a loop whose header has failed, where the failure has ended it."""
    if (
        not path
        or not standing.at_header()
        or path[-1].statement is not standing.path[-1].statement
    ):
        return
    slot = f".i{number_of(path[-1].statement)}"
    iterator = hidden.get(slot)
    if iterator is not None:
        hidden[slot] = _alive(iterator, error, 0)


def _alive(iterator: Any, error: BaseException, depth: int) -> Any:
    if isinstance(iterator, types.GeneratorType):
        return iterator if iterator.gi_frame is not None else _source_of(iterator, error)
    if type(iterator) in _WRAPPERS and depth < MAX_DEPTH:
        made, arguments = iterator.__reduce__()[:2]
        if type(iterator) is enumerate:
            inner = _alive(arguments[0], error, depth + 1)
            return iterator if inner is arguments[0] else made(inner, arguments[1])
        if type(iterator) is zip:
            inners = [_alive(one, error, depth + 1) for one in arguments]
            same = all(one is other for one, other in zip(inners, arguments))
            return iterator if same else made(*inners)
        function, *rest = arguments
        inners = [_alive(one, error, depth + 1) for one in rest]
        same = all(one is other for one, other in zip(inners, rest))
        return iterator if same else made(function, *inners)
    return iterator


def _source_of(generator: Any, error: BaseException) -> Any:
    """What goes on in the place of a generator that has ended."""
    frames = _frames(error)
    start = next(
        (i for i, one in enumerate(frames) if one.f_code is generator.gi_code), len(frames)
    )
    bars: List[Any] = []
    for at in range(start, len(frames)):
        frame = frames[at]
        if frame.f_code.co_flags & 0x20:  # a generator, which has ended as well
            owner = _first_argument(frame)
            if owner is not None and _is_bar(owner):
                bars.append(owner)
            source = _iterator_in(frame, frames[at + 1 :])
            if source is not None:
                return _wrapped(source, bars)
        else:
            owner = _first_argument(frame)
            if owner is not None and hasattr(type(owner), "__next__"):
                return _wrapped(owner, bars)
    raise Refused(
        f"the generator {generator.__qualname__} has ended with the exception, and what it drew "
        "its items from was not found"
    )


def _iterator_in(frame: types.FrameType, inner: List[types.FrameType]) -> Any:
    """The iterator from which a dead generator's frame took its items, if a local holds it."""
    if any(_is_next(one) for one in inner):
        return None  # seen better there
    found: List[Any] = []
    for value in frame.f_locals.values():
        is_dead = isinstance(value, types.GeneratorType) and value.gi_frame is None
        if hasattr(type(value), "__next__") and not is_dead and value not in found:
            found.append(value)
    return found[0] if len(found) == 1 else None


def _is_next(frame: types.FrameType) -> bool:
    owner = _first_argument(frame)
    is_generator = frame.f_code.co_flags & 0x20
    return not is_generator and owner is not None and hasattr(type(owner), "__next__")


def _frames(error: BaseException) -> List[types.FrameType]:
    found: List[types.FrameType] = []
    entry = error.__traceback__
    while entry is not None and len(found) < MAX_ENTRIES:
        found.append(entry.tb_frame)
        entry = entry.tb_next
    return found


def _first_argument(frame: types.FrameType) -> Optional[Any]:
    code = frame.f_code
    return frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None


def _is_bar(owner: Any) -> bool:
    """A progress bar in the manner of tqdm."""
    return all(hasattr(owner, name) for name in ("update", "close", "n", "total"))


def _wrapped(source: Any, bars: List[Any]) -> Iterator[Any]:
    made: Iterator[Any] = iter(source)
    for bar in reversed(bars):
        made = _with_bar(made, bar)
    return made


def _with_bar(source: Iterator[Any], bar: Any) -> Iterator[Any]:
    """The items of `source`, each told to the bar, which its generator's end has closed."""
    try:
        bar.disable = False
    except Exception:
        pass
    for item in source:
        yield item
        try:
            bar.update(1)
        except Exception:
            pass
    try:
        bar.close()
    except Exception:
        pass
