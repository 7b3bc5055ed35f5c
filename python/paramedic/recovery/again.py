"""Which statements above a failing one have to be run again when an edit changes what they give.

The frame stays where it is. Of what stands above, the statements that the edit changes, and those
that use what these give, are run again for their values alone: a slice of the program. Where such a
statement works on what it has changed itself (`x = f(x)`), the one that made it belongs to the
slice too; where that is none of the frame's, nothing can be run again.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Iterator, List, Optional, Set, Tuple

from paramedic._syntax import last_name
from paramedic.recovery.places import (
    Item,
    item_of,
    items_of,
    meet,
    mutated_by,
    own_variables,
    read,
    reports,
    stored,
    used_by_header,
)
from paramedic.recovery.source import FUNCTIONS, LOOPS, WITHS, Path, begin_of, own_nodes
from paramedic.recovery.training import is_training_call

_NOT_ALONE = (
    *(ast.Return, ast.Break, ast.Continue, ast.Raise, ast.Global, ast.Nonlocal, ast.Delete),
    *(ast.Await, ast.Yield, ast.YieldFrom, ast.AsyncFor, ast.AsyncWith, ast.Import, ast.ImportFrom),
    *(ast.Lambda, ast.ClassDef, *FUNCTIONS),
)


@dataclass
class Slice:
    """What is to be run again, in its order, or why it cannot be."""

    statements: List[ast.stmt] = field(default_factory=list)
    places: Set[str] = field(default_factory=set)  # that have another value afterwards
    fresh: Set[str] = field(default_factory=set)  # variables that it has to give a value itself
    kept: Set[str] = field(default_factory=set)  # that something else has given a value since
    affected: List[int] = field(default_factory=list)  # lines whose values the edit changes
    refused: Optional[str] = None
    # How deep in the path the first `if` stands whose test the edit changes or gives other values.
    test: Optional[int] = None
    # What the headers of entered blocks had of it: (line, expression).
    begun: List[Tuple[int, ast.expr]] = field(default_factory=list)


def slice_of(
    path: Path, known: Set[str], names: Set[str], seeds: Set[str], kept: Set[str], whole: bool
) -> Slice:
    """What has to be run again above the end of `path`.

    Args:
        path: the way to the failing statement, in either version of its function.
        known: `ast.dump` of the statements that the other version has as well.
        names: of functions and of the module's variables that the edit changes.
        seeds: places of the frame that are to have another value, such as parameters.
        kept: names of what no call changes.
        whole: the statement at the end is a block that has run in part and will run anew.
    """
    items = [*items_of(path)]
    if whole:
        items.append(item_of(path[-1].statement))
    for item in items:
        item.changes -= kept
    marked, tests = _affected(items, known, names, seeds)
    for node in [] if whole else tests:
        depth = next(i for i, step in enumerate(path) if step.statement is node)
        if _only_binds(path[depth + 1 :]):
            # The test is made again: with what stands above it, and without what stands below.
            found = slice_of(path[: depth + 1], known, names, seeds, kept, False)
            found.test = depth
            found.affected.append(begin_of(node)[0])
            return found
    found = Slice(affected=[items[i].line for i in sorted(marked)])
    found.begun = [*_begun(items, marked, seeds)]
    if whole:
        marked.add(len(items) - 1)
    if not marked:
        return found
    try:
        found.kept = _close(items, marked, seeds)
    except _Impossible as error:
        found.refused = str(error)
        return found
    if whole:
        marked.discard(len(items) - 1)
    found.begun = [*_begun(items, marked, seeds)]
    found.statements = [items[i].node for i in sorted(marked)]
    for i in sorted(marked, reverse=True):
        found.places |= items[i].touches
        found.fresh = (found.fresh - items[i].touches) | items[i].own
    found.places -= found.kept
    return found


class _Impossible(Exception):
    """Why something cannot be run again."""


def clobbered(path: Path, first: int) -> Optional[str]:
    """Why the last block of `path` cannot be gone through again from its statement `first` on.

    None where nothing in it works on what it has changed itself.
    """
    step = path[-1]
    items = [item_of(one) for one in step.block[first : step.at]]
    fresh: Set[str] = set()
    touched: Set[str] = set()
    for one in items:
        touched |= _surely_touched(one)
    for item in items:
        lost = {place for place in item.reads & touched if place not in fresh}
        mine = item.binds | item.own
        lost |= {place for place in _surely_touched(item) - mine if place not in fresh}
        if lost:
            return _lost(item, min(lost))
        fresh |= item.binds
    return None


def _surely_touched(item: Item) -> Set[str]:
    """Without what a call may change only: running it again is taken to give the same."""
    found = set(item.binds)
    for node in own_nodes([item.node]):
        if isinstance(node, ast.Call):
            found |= mutated_by(node)
        elif isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            found |= set() if isinstance(node.ctx, ast.Load) else stored(node)
    return found - own_variables(item.node)


def _lost(item: Item, place: str) -> str:
    return (
        f"line {item.line} works on {place}, which has been changed since: run again it would do "
        f"so twice"
    )


# ---------------------------------------------------------------------- the slice


def _affected(
    items: List[Item], known: Set[str], names: Set[str], seeds: Set[str]
) -> Tuple[Set[int], List[ast.If]]:
    tainted = set(seeds)
    marked: Set[int] = set()
    tests: List[ast.If] = []
    for i, item in enumerate(items):
        if item.is_header:
            if isinstance(item.node, ast.If):
                test = item_of(ast.Expr(item.node.test))
                is_new = ast.dump(item.node.test) not in known
                if is_new or names & {*_mentions(test.node)} or meet(test.reads, tainted):
                    tests.append(item.node)
            tainted -= item.binds
            continue
        is_new = ast.dump(item.node) not in known
        if (is_new or names & {*_mentions(item.node)} or meet(item.reads, tainted)) and (
            item.touches and not reports(item.node)
        ):
            marked.add(i)
            tainted |= item.touches
        else:
            tainted -= item.binds
    return marked, tests


def _only_binds(path: Path) -> bool:
    """Whether all that stands before the end of `path` can be run once more."""
    if any(isinstance(step.statement, (*LOOPS, *WITHS)) for step in path[:-1]):
        return False
    items = [item for item in items_of(path) if not item.is_header]
    return all(
        item.binds and not item.changes and not item.binds & item.reads and not _trains(item)
        for item in items
    )


def _trains(item: Item) -> bool:
    return any(isinstance(one, ast.Call) and is_training_call(one) for one in ast.walk(item.node))


def _close(items: List[Item], marked: Set[int], seeds: Set[str]) -> Set[str]:
    """Adds what the slice needs besides, until it needs nothing more.

    Returns:
        The places that it sets, and that something below it has set anew.
    """
    kept: Set[str] = set()
    for _ in range(len(items) + 1):
        before = len(marked)
        for i in sorted(marked):
            item = items[i]
            _check(item)
            wanted = item.reads | (item.changes - item.binds - item.own)
            for place in sorted(wanted - seeds):
                if any(meet({place}, one.touches) for one in items[i:]):
                    _add_makers(items, marked, i, place)
        kept = {
            place
            for place in sorted({place for i in marked for place in items[i].touches})
            if not _add_later(items, marked, place)
        }
        _add_users(items, marked)
        if len(marked) == before:
            break
    return kept


def _add_makers(items: List[Item], marked: Set[int], i: int, place: str) -> None:
    """The statements that gave `place` the value which the item `i` saw."""
    for j in range(i - 1, -1, -1):
        if not meet({place}, items[j].touches):
            continue
        if items[j].is_header:
            break
        marked.add(j)
        if place in items[j].binds:
            return
    raise _Impossible(_lost(items[i], place))


def _add_later(items: List[Item], marked: Set[int], place: str) -> bool:
    """Adds what has changed `place` after the slice.

    Returns:
        Whether it is the slice's still: False where it was given another value since.
    """
    last = max(i for i in marked if place in items[i].touches)
    for j in range(last + 1, len(items)):
        item = items[j]
        if place not in item.touches:
            continue
        if place in item.reads or not (place in item.binds or place in items[last].own & item.own):
            marked.add(j)
            continue
        if "." not in place and not any(place in items[i].reads for i in marked if i > j):
            return False
        if item.is_header or "." in place:
            raise _Impossible(f"line {item.line} has given {place} another value since")
        marked.add(j)
    return True


def _add_users(items: List[Item], marked: Set[int]) -> None:
    """What may have kept an object that the slice makes anew."""
    made: Set[str] = set()
    for i, item in enumerate(items):
        if i in marked:
            made |= item.touches
        elif item.is_header or not (item.touches and meet(item.reads, made)):
            made -= item.binds
        elif not reports(item.node):
            marked.add(i)
            made |= item.touches


def _begun(items: List[Item], marked: Set[int], seeds: Set[str]) -> Iterator[Tuple[int, ast.expr]]:
    """What the headers of blocks have used of the places that get another value."""
    made = set(seeds)
    for i, item in enumerate(items):
        if item.is_header:
            for used in used_by_header(item.node):
                if meet(read(used), made):
                    yield item.line, used
        made = made | item.touches if i in marked else made - item.binds


def _check(item: Item) -> None:
    if _trains(item):
        raise _Impossible(f"line {item.line} is a step of a training")
    inside = {id(one) for one in _jumps_of_loops(item.node)}
    for node in ast.walk(item.node):
        name = last_name(node)
        if (
            isinstance(node, _NOT_ALONE)
            and id(node) not in inside
            or name in ("super", "__class__", "locals", "next")
        ):
            raise _Impossible(f"line {item.line} cannot be run by itself")
        if name.startswith("__") and not name.endswith("__"):
            raise _Impossible(f"line {item.line} uses a private name of a class")


def _jumps_of_loops(node: ast.AST) -> Iterator[ast.AST]:
    """What leads to another place of a loop in `node`, and not out of it."""
    for loop in ast.walk(node):
        if isinstance(loop, (ast.For, ast.While)):
            for statement in loop.body:
                for one in ast.walk(statement):
                    if isinstance(one, (ast.Break, ast.Continue)):
                        yield one


def _mentions(node: ast.stmt) -> Iterator[str]:
    for one in own_nodes([node]):
        if isinstance(one, ast.Name):
            yield one.id
        elif isinstance(one, ast.Attribute):
            yield one.attr
