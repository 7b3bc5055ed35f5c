"""Which statements above a failing one have to be run again when an edit changes what they give.

The frame stays where it is. Of what stands above, the statements that the edit changes, and those
that use what these give, are run again for their values alone: a slice of the program. Where such a
statement works on what it has changed itself (`x = f(x)`), the one that made it belongs to the
slice too; where that is none of the frame's, nothing can be run again.

Values are known by places: a variable (`x`) or an attribute of one (`self.scale`).
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import Any, Iterator, List, Optional, Set, Tuple

from paramedic._syntax import last_name
from paramedic.recovery.source import (
    FUNCTIONS,
    LOOPS,
    WITHS,
    Path,
    begin_of,
    blocks_of,
    children_of,
    own_nodes,
)
from paramedic.recovery.training import is_training_call

# Whoever calls these tells somebody: once, with what was known then.
_REPORTS = re.compile(
    r"(?:print|pprint|log\w*|info|debug|warn\w*|error|write\w*|add_scalar\w*|display|flush|report"
    r"|set_(?:postfix|description)\w*)\Z"
)
# Methods that change the object, whatever becomes of their value; in torch those with `_` as well.
_MUTATORS = {
    *("append", "appendleft", "extend", "insert", "add", "update", "setdefault", "pop", "popleft"),
    *("popitem", "remove", "discard", "clear", "sort", "reverse", "write", "writelines", "fill"),
    *("put", "subtract", "rotate", "send", "throw", "load_state_dict", "register_buffer"),
}
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
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


@dataclass
class _Item:
    """A statement above the failing one, or the header of a block in which that one stands."""

    node: Any
    is_header: bool
    reads: Set[str] = field(default_factory=set)  # before it gives them a value itself
    binds: Set[str] = field(default_factory=set)  # gets a new value for certain
    changes: Set[str] = field(default_factory=set)  # may get another one, or is changed in place

    @property
    def line(self) -> int:
        return begin_of(self.node)[0]

    @property
    def touches(self) -> Set[str]:
        return self.binds | self.changes

    @property
    def own(self) -> Set[str]:
        """Variables that it uses only with values of its own, such as the target of a loop."""
        return {place for place in self.touches - self.reads if "." not in place}


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
    items = [*_items(path)]
    if whole:
        items.append(_item(path[-1].statement))
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
    items = [_item(one) for one in step.block[first : step.at]]
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


def _surely_touched(item: _Item) -> Set[str]:
    """Without what a call may change only: running it again is taken to give the same."""
    found = set(item.binds)
    for node in own_nodes([item.node]):
        if isinstance(node, ast.Call):
            found |= _mutated_by(node)
        elif isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            found |= set() if isinstance(node.ctx, ast.Load) else _stored(node)
    return found - _own_variables(item.node)


def _lost(item: _Item, place: str) -> str:
    return (
        f"line {item.line} works on {place}, which has been changed since: run again it would do "
        f"so twice"
    )


# ---------------------------------------------------------------------- the slice


def _affected(
    items: List[_Item], known: Set[str], names: Set[str], seeds: Set[str]
) -> Tuple[Set[int], List[ast.If]]:
    tainted = set(seeds)
    marked: Set[int] = set()
    tests: List[ast.If] = []
    for i, item in enumerate(items):
        if item.is_header:
            if isinstance(item.node, ast.If):
                test = _item(ast.Expr(item.node.test))
                is_new = ast.dump(item.node.test) not in known
                if is_new or names & {*_mentions(test.node)} or meet(test.reads, tainted):
                    tests.append(item.node)
            tainted -= item.binds
            continue
        is_new = ast.dump(item.node) not in known
        if (is_new or names & {*_mentions(item.node)} or meet(item.reads, tainted)) and (
            item.touches and not _reports(item.node)
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
    items = [item for item in _items(path) if not item.is_header]
    return all(
        item.binds and not item.changes and not item.binds & item.reads and not _trains(item)
        for item in items
    )


def _trains(item: _Item) -> bool:
    return any(isinstance(one, ast.Call) and is_training_call(one) for one in ast.walk(item.node))


def _close(items: List[_Item], marked: Set[int], seeds: Set[str]) -> Set[str]:
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


def _add_makers(items: List[_Item], marked: Set[int], i: int, place: str) -> None:
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


def _add_later(items: List[_Item], marked: Set[int], place: str) -> bool:
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


def _add_users(items: List[_Item], marked: Set[int]) -> None:
    """What may have kept an object that the slice makes anew."""
    made: Set[str] = set()
    for i, item in enumerate(items):
        if i in marked:
            made |= item.touches
        elif item.is_header or not (item.touches and meet(item.reads, made)):
            made -= item.binds
        elif not _reports(item.node):
            marked.add(i)
            made |= item.touches


def _begun(items: List[_Item], marked: Set[int], seeds: Set[str]) -> Iterator[Tuple[int, ast.expr]]:
    """What the headers of blocks have used of the places that get another value."""
    made = set(seeds)
    for i, item in enumerate(items):
        if item.is_header:
            for used in _used_by_header(item.node):
                if meet(_read(used), made):
                    yield item.line, used
        made = made | item.touches if i in marked else made - item.binds


def _check(item: _Item) -> None:
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


def meet(some: Set[str], others: Set[str]) -> bool:
    """Whether two sets of places have something in common: `self` and `self.x` have."""
    if some & others:
        return True
    roots = {place.partition(".")[0] for place in others if "." in place}
    wholes = {place for place in others if "." not in place}
    return any(
        place.partition(".")[0] in wholes if "." in place else place in roots for place in some
    )


# ---------------------------------------------------------------------- what a statement does


def _items(path: Path) -> Iterator[_Item]:
    for depth, step in enumerate(path):
        for one in step.block[: step.at]:
            if not isinstance(one, (*FUNCTIONS, ast.ClassDef, ast.Import, ast.ImportFrom)):
                yield _item(one)
        if depth < len(path) - 1:
            yield _header(step.statement)


def _item(node: Any) -> _Item:
    item = _Item(node, False)
    if any(True for _ in blocks_of(node)):
        _through([node], set(), item)
        return item
    found = _expression(node)
    item.reads, item.changes = found.reads, found.changes
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        item.changes |= _worked_on(node.value)
    if isinstance(node, ast.AugAssign):
        item.reads |= _stored(node.target)
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets: List[Any] = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            several = isinstance(target, (ast.Tuple, ast.List))
            for part in target.elts if several else [target]:
                if isinstance(part, (ast.Name, ast.Attribute)):
                    item.binds |= _stored(part)
        item.changes -= item.binds
    return item


def _expression(node: Any) -> _Item:
    """What the expressions of a node read, change and store."""
    item = _Item(node, False)
    own = _own_variables(node)
    nodes = [*own_nodes([node])]
    called = {id(one.func) for one in nodes if isinstance(one, ast.Call)}
    # Of `self.x` only the attribute is read, of `self.f()` all that the object has.
    parts = {
        id(one.value) for one in nodes if isinstance(one, ast.Attribute) and id(one) not in called
    }
    for one in nodes:
        if isinstance(one, ast.Call):
            item.changes |= _mutated_by(one)
        elif id(one) in called and isinstance(one, ast.Attribute):
            item.reads |= _read(one.value)
        elif isinstance(one, (ast.Name, ast.Attribute, ast.Subscript)) and id(one) not in parts:
            if isinstance(one.ctx, ast.Load):
                item.reads |= _read(one)
            else:
                item.changes |= _stored(one)
    item.reads -= own
    item.changes -= own
    return item


def _through(statements: List[Any], bound: Set[str], item: _Item) -> Set[str]:
    """Adds to `item` what a block does where the places `bound` have a value of its own.

    Returns:
        The places that have one behind the block, `bound` among them.
    """
    for one in statements:
        blocks = [block for _, _, block in blocks_of(one)]
        part = _Item(one, False) if blocks else _item(one)
        for node in _headers_of(one) if blocks else ():
            found = _expression(node)
            part.reads |= found.reads
            part.changes |= found.changes | _captured(node)
        item.reads |= {
            place
            for place in part.reads
            if place not in bound and place.partition(".")[0] not in bound
        }
        item.changes |= part.touches
        # What a header sets it sets before the blocks.
        inner = bound | (part.touches - part.reads if blocks else set())
        ends = [_through(block, set(inner), item) for block in blocks]
        if isinstance(one, ast.If) and len(blocks) == 2:
            bound = ends[0] & ends[1]
        elif isinstance(one, WITHS):
            bound = ends[0]
        bound = bound | part.binds
    return bound


def _headers_of(node: Any) -> Iterator[Any]:
    """The parts of a compound statement that are no blocks: expressions, targets, patterns."""
    for one in children_of(node):
        if isinstance(one, (ast.ExceptHandler, ast.match_case)):
            yield from _headers_of(one)
        elif not isinstance(one, ast.stmt):
            yield one


def _header(node: Any) -> _Item:
    """What the entered header of a block has done, of which nothing can be done again."""
    item = _Item(node, True)
    targets: List[Any] = []
    if isinstance(node, (ast.For, ast.AsyncFor)):
        targets = [node.target]
    elif isinstance(node, WITHS):
        targets = [one.optional_vars for one in node.items if one.optional_vars is not None]
    for target in targets:
        for one in ast.walk(target):
            if isinstance(one, (ast.Name, ast.Attribute)) and not isinstance(one.ctx, ast.Load):
                item.binds |= _stored(one)
    if isinstance(node, ast.Match):
        item.binds |= _captured(node)
    return item


def _captured(node: ast.AST) -> Set[str]:
    """The variables that patterns set."""
    names = (one.name for one in ast.walk(node) if isinstance(one, (ast.MatchAs, ast.MatchStar)))
    return {name for name in names if name}


def _used_by_header(node: Any) -> Iterator[ast.expr]:
    """The variables, with attributes and items, that a loop goes over or a `with` has entered."""
    todo: List[Any] = []
    if isinstance(node, (ast.For, ast.AsyncFor)):
        todo = [node.iter]
    elif isinstance(node, WITHS):
        todo = [one.context_expr for one in node.items]
    while todo:
        one = todo.pop()
        if isinstance(one, ast.Call):
            # Of `f(x)` what is given, of `x.f()` the object.
            todo += [getattr(one.func, "value", None), *one.args]
            todo += [keyword.value for keyword in one.keywords]
        elif place_of(one) is not None:
            yield one
        elif isinstance(one, ast.AST):
            todo += ast.iter_child_nodes(one)


def _own_variables(node: Any) -> Set[str]:
    """Of the comprehensions in a statement."""
    found: Set[str] = set()
    for one in own_nodes([node]):
        if isinstance(one, _COMPREHENSIONS):
            for part in one.generators:
                found |= {
                    inner.id for inner in ast.walk(part.target) if isinstance(inner, ast.Name)
                }
    return found


def place_of(node: Any) -> Optional[str]:
    """The place in which the object lies that an expression goes through."""
    names: List[str] = []
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute):
            names.append(node.attr)
        elif isinstance(node, ast.Subscript):
            names.clear()
        else:
            return None
        node = node.value
    return f"{node.id}.{names[-1]}" if names else str(node.id)


def _read(node: Any) -> Set[str]:
    place = place_of(node)
    return set() if place is None else {place}


def _stored(node: Any) -> Set[str]:
    is_own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    return _read(node if is_own or isinstance(node, ast.Name) else node.value)


def _mutated_by(call: ast.Call) -> Set[str]:
    name = getattr(call.func, "attr", "")
    in_place = name.endswith("_") and not name.endswith("__")
    if isinstance(call.func, ast.Attribute) and (name in _MUTATORS or in_place):
        return _read(call.func.value)
    return set()


def _worked_on(call: ast.Call) -> Set[str]:
    """What a call whose value nobody takes may be there for."""
    if _reports(ast.Expr(call)):
        return set()
    nodes = [*call.args, *(one.value for one in call.keywords)]
    if isinstance(call.func, ast.Attribute):
        nodes.append(call.func.value)
    return {place for node in nodes for place in _read(node)}


def _reports(node: ast.stmt) -> bool:
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    return bool(_REPORTS.match(last_name(node.value.func)))


def _mentions(node: ast.stmt) -> Iterator[str]:
    for one in own_nodes([node]):
        if isinstance(one, ast.Name):
            yield one.id
        elif isinstance(one, ast.Attribute):
            yield one.attr
