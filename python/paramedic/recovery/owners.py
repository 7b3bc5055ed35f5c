"""Who has the objects that statements have made, besides the variables of the job."""

from __future__ import annotations

import copy
import enum
import gc
import sys
import traceback
import types
from typing import Any, Iterator, List, Optional

from paramedic.recovery.observed import ITERATORS, MAX_DEPTH, PLAIN, state_of

MAX_LEVELS = 6  # of objects that belong to others
MAX_OWNERS = 64  # of one level: each costs a comparison for every reference there is


def held_elsewhere(values: List[Any], variables: List[Any]) -> Optional[Any]:
    """One of the objects that something else than variables, and than one another, refers to.

    What belongs to them alone, such as a module's dict of buffers, counts as a part of them; what
    Paramedic keeps in order to put things back does not count.

    Args:
        values: the objects.
        variables: the dicts of variables that may refer to them.
    """
    kept = [one for one in values if not _is_constant(one)]
    made = {id(one) for one in kept}
    made |= {id(one.__dict__) for one in kept if hasattr(one, "__dict__")}
    live = [*_frames()]
    scopes = {id(one) for one in variables} | {id(one.f_locals) for one in live}
    gone = {id(one) for one in _frames_of_the_crash()} - {id(one) for one in live}
    # Of a loop that goes on; a comprehension's has died with the exception.
    loops = {id(one) for scope in variables for name, one in scope.items() if name[:1] == "."}
    owned = {id(one): one for one in kept}  # object -> the value that has it, or is it
    level = kept
    own: List[Any] = [values, kept, owned, live]  # that refer to them for our sake
    for depth in range(MAX_LEVELS if kept else 0):
        found = gc.get_referrers(*level)
        own += [level, found]
        ours = {id(one) for one in own}
        looked_at, has_owner, above = {id(one) for one in level}, set(), []
        for one in found:
            inside = [id(part) for part in gc.get_referents(one) if id(part) in looked_at]
            is_over = isinstance(one, ITERATORS) and id(one) not in loops
            if not inside or is_over or id(one) in ours:
                continue
            is_variable = id(one) in scopes or _is_frame(one)
            is_variable |= depth == 0 and isinstance(one, types.CellType)
            if is_variable and depth > 0 and id(one) not in gone:
                return owned[inside[0]]  # an object that has it is somebody else's
            has_owner.update(inside)
            is_ours = str(type(one).__module__).startswith("paramedic.")  # to put it back
            if not (is_variable or is_ours or id(one) in made or id(one) in owned):
                owned[id(one)] = owned[inside[0]]
                above.append(one)
        lost = looked_at - has_owner if depth > 0 else set()
        if lost or len(above) > MAX_OWNERS:
            return owned[lost.pop() if lost else id(above[0])]
        if not above:
            return None
        level = above
    return owned[id(level[0])] if kept else None


def _frames() -> Iterator[types.FrameType]:
    """The frames of this thread, from the caller of who asks on."""
    frame: Optional[types.FrameType] = sys._getframe(2)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _frames_of_the_crash() -> Iterator[types.FrameType]:
    """Those that the exception being handled has passed, in libraries as well."""
    error = sys.exc_info()[1]
    for _ in range(MAX_DEPTH):
        if error is None:
            return
        for frame, _ in traceback.walk_tb(error.__traceback__):
            yield frame
        error = error.__context__


def _is_frame(value: Any) -> bool:
    """Whether it stands for variables; what runs has those of its frame."""
    if isinstance(value, types.GeneratorType):
        return value.gi_running
    if isinstance(value, types.CoroutineType):
        return value.cr_running
    if isinstance(value, types.AsyncGeneratorType):
        return value.ag_running
    return isinstance(value, types.FrameType)


def _is_constant(value: Any) -> bool:
    """Whether it is the same to everybody who has it, for ever."""
    if isinstance(value, (*PLAIN, enum.Enum, type, types.ModuleType, types.FunctionType)):
        return True
    try:
        return state_of(value) is None and copy.copy(value) is value
    except Exception:
        return False
