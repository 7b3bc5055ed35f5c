"""The project's frames on the crashed stack, and the statements at which they stand."""

from __future__ import annotations

import ast
import types
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

from paramedic.recovery import bytecode, remap
from paramedic.recovery import runtime as runtime_of
from paramedic.recovery.crash import ProjectFrame
from paramedic.recovery.runtime import Runtime
from paramedic.recovery.source import (
    LOOPS,
    Function,
    Path,
    Position,
    begin_of,
    contains,
    has_guard,
    number_of,
    own_statements,
    path_to,
    place_of,
)

MAX_FRAMES = 2000
_DRIVERS = ("run", "run_generator", "run_coroutine", "run_module")
_THROWN_IN = ("YIELD_VALUE", "RESUME")


@dataclass
class Standing:
    """A frame, and the statement of its own version of the source at which it stands."""

    frame: types.FrameType
    runtime: Runtime
    function: Function
    path: Path
    place: Position  # of the instruction
    in_next: bool  # a loop's iterator is what failed
    has_raised: bool  # a `raise` has done so: not what it raises is what failed
    half: Any = None  # written.Half: what the failed statement has written into a file

    def project_frame(self) -> ProjectFrame:
        """As the others see it: in the source as it is now."""
        newest = runtime_of.newest(self.runtime.file) or self.runtime
        line, column = begin_of(self.path[-1].statement)
        source = newest.source
        if newest is not self.runtime:
            moved = remap.follow(self.runtime.source, self.function, self.path, source)
            if moved is not None:
                line, column = begin_of(moved.path[-1].statement)
        elif line <= self.place[0] <= (self.path[-1].statement.end_lineno or line):
            line, column = self.place
        lines = source.text.splitlines()
        text = lines[line - 1][:column] if line <= len(lines) else b""
        return ProjectFrame(
            self.frame,
            self.runtime.file,
            self.function.qualname,
            line,
            len(text.decode("utf-8", "replace")),
            self.at_header(),
        )

    def at_header(self) -> bool:
        """Whether it stands in the iterator of a loop, whose next item can be taken."""
        return self.in_next and isinstance(self.path[-1].statement, LOOPS)

    def case(self) -> Optional[int]:
        """Which `case` of a `match` it stands in the guard or the pattern of, None in none."""
        last = self.path[-1].statement
        if not isinstance(last, ast.Match) or not has_guard(last):
            return None
        begun = [one for one in last.cases if begin_of(one.pattern) <= self.place]
        return len(begun) - 1 if begun else None

    def values(self) -> Dict[str, Any]:
        """The frame's locals; a module's hidden ones only."""
        if self.function.kind == "module":
            return dict(self.runtime.slots.__dict__)
        return dict(self.frame.f_locals)

    def regions(self) -> List[int]:
        """The numbers of the barriers around the statement, outermost first."""
        return regions_of(self.path)


def regions_of(path: Path) -> List[int]:
    """The numbers of the barriers around the last statement of `path`."""
    found = [0]
    for step, below in zip(path, path[1:]):
        node: Any = step.statement
        if isinstance(node, (ast.With, ast.AsyncWith)) and below.name == "body":
            found.append(number_of(node))
        if hasattr(node, "finalbody") and node.finalbody and below.name != "finalbody":
            found.append(number_of(node))
        if isinstance(below.owner, ast.ExceptHandler):
            found.append(number_of(below.owner))
    return found


def standing_at_crash(
    runtime: Runtime, key: int, region: int, frame: types.FrameType, error: BaseException
) -> Optional[Standing]:
    """Where `frame` stands with `error`, or None where it cannot be continued."""
    entry = error.__traceback__
    while entry is not None and entry.tb_frame is not frame:
        entry = entry.tb_next
    if entry is None:
        return None
    function = runtime.source.functions[key]
    operation = bytecode.read(frame.f_code).operation(entry.tb_lasti)
    if function.kind != "function" and operation in _THROWN_IN:
        return None  # thrown in by whoever uses the generator
    found = _stand(runtime, function, frame, entry.tb_lasti)
    if found is not None and region:
        again = _raise_in_handler(function, region, found.place)
        path = path_to(function.body, again) if again else None
        if again and path:
            found.place, found.path, found.in_next = again, path, False
    if found is not None:
        _cut(found, region)
    return found


def _cut(standing: Standing, region: int) -> None:
    """Blocks that the exception has left on its way to the barrier are no part of the path."""
    path = standing.path
    for length in range(len(path), 0, -1):
        if regions_of(path[:length])[-1] == region:
            if length < len(path):
                standing.path, standing.in_next = path[:length], False
            return


def _stand(
    runtime: Runtime, function: Function, frame: types.FrameType, offset: int
) -> Optional[Standing]:
    place = place_of(frame.f_code, offset)
    if place is None:
        return None
    path = path_to(function.body, place)
    if path is None:
        return None
    operation = bytecode.read(frame.f_code).operation(offset)
    in_next = operation in ("FOR_ITER", "SEND", "GET_ANEXT", "END_ASYNC_FOR")
    statement: Any = path[-1].statement
    if isinstance(statement, LOOPS):
        live = frame.f_locals if function.kind != "module" else runtime.slots.__dict__
        slot = f".i{number_of(statement)}"
        # With an iterator, a failing target also means that an item was taken.
        taken = place >= begin_of(getattr(statement, "target", statement)) and not (
            hasattr(statement, "iter") and place >= begin_of(statement.iter)
        )
        in_next = live.get(slot) is not None and (in_next or taken)
    return Standing(frame, runtime, function, path, place, in_next, operation == "RAISE_VARARGS")


def _raise_in_handler(function: Function, region: int, place: Position) -> Optional[Position]:
    """An exception that a handler raises again by a bare `raise` shows its first place only."""
    for node in own_statements(function.body):
        if not isinstance(node, ast.ExceptHandler) or number_of(node) != region:
            continue
        if any(contains(one, place) for one in node.body):
            return None
        for one in own_statements(node.body):
            if isinstance(one, ast.Raise) and one.exc is None:
                return begin_of(one)
    return None


def standings(crashed: Standing) -> List[Standing]:
    """All frames of the project on the stack, outermost first; the last is `crashed`."""
    found = [crashed]
    current = crashed.frame.f_back
    hosts = 0  # frames whose continuation has been seen already
    if _is_driver(crashed.frame.f_back):
        hosts = 1
    for _ in range(MAX_FRAMES):
        if current is None:
            break
        if _is_driver(current):
            hosts = 1
        else:
            runtime = runtime_of.of_code(current.f_code)
            if runtime is not None and hosts:
                hosts = 0
            elif runtime is not None:
                function = runtime.source.of_code(current.f_code)
                if function is not None:
                    standing = _stand(runtime, function, current, current.f_lasti)
                    if standing is not None:
                        found.append(standing)
        current = current.f_back
    return found[::-1]


def _is_driver(frame: Optional[types.FrameType]) -> bool:
    return (
        frame is not None
        and frame.f_code.co_name in _DRIVERS
        and frame.f_code.co_filename == runtime_of.__file__
    )


class Repeats:
    """How often the same exception came at the same place with no progress."""

    def __init__(self) -> None:
        self._last: Any = None
        self._count = 0
        self._kind = ""

    def count(self, standing: Standing, error: BaseException) -> int:
        """0 at first; called once for each crash."""
        key = self._key(standing, error)
        if key == self._last and not self._has_moved(standing):
            self._count += 1
        else:
            self._count = 0
        self._last = key
        return self._count

    def repaired(self, plan: Any) -> None:
        """The crash counted last was repaired by `plan`."""
        if plan.skips:
            self._last = None

    @staticmethod
    def _key(standing: Standing, error: BaseException) -> Any:
        where = standing.runtime.file, standing.function.qualname, standing.place[0]
        return (*where, type(error), str(error)[:500])

    @staticmethod
    def _has_moved(standing: Standing) -> bool:
        """Whether a loop around the crash has begun another iteration since the last repair."""
        values = standing.values()
        for step, below in zip(standing.path[::-1][1:], standing.path[::-1]):
            node: Any = step.statement
            if isinstance(node, LOOPS) and below.name == "body":
                token = values.get(f".t{number_of(node)}")
                first = values.get(f".f{number_of(node)}")
                if first is None:
                    return token is not runtime_of.TOKEN
                return False
        return False
