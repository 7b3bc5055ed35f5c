"""What a statement reads, gives a value and changes, as far as its text tells.

Values are known by places: a variable (`x`) or an attribute of one (`self.scale`).
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Optional, Set

from paramedic._syntax import last_name
from paramedic.recovery.source import (
    FUNCTIONS,
    WITHS,
    Path,
    begin_of,
    blocks_of,
    children_of,
    own_nodes,
)

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


@dataclass
class Item:
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


def meet(some: Set[str], others: Set[str]) -> bool:
    """Whether two sets of places have something in common: `self` and `self.x` have."""
    if some & others:
        return True
    roots = {place.partition(".")[0] for place in others if "." in place}
    wholes = {place for place in others if "." not in place}
    return any(
        place.partition(".")[0] in wholes if "." in place else place in roots for place in some
    )


def items_of(path: Path) -> Iterator[Item]:
    """What stands above the end of `path`: statements, and the headers of its blocks."""
    for depth, step in enumerate(path):
        for one in step.block[: step.at]:
            if not isinstance(one, (*FUNCTIONS, ast.ClassDef, ast.Import, ast.ImportFrom)):
                yield item_of(one)
        if depth < len(path) - 1:
            yield _header(step.statement)


def item_of(node: Any) -> Item:
    """What a whole statement does, with the blocks in it."""
    item = Item(node, False)
    if any(True for _ in blocks_of(node)):
        _through([node], set(), item)
        return item
    found = _expression(node)
    item.reads, item.changes = found.reads, found.changes
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        item.changes |= _worked_on(node.value)
    if isinstance(node, ast.AugAssign):
        item.reads |= stored(node.target)
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets: List[Any] = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            several = isinstance(target, (ast.Tuple, ast.List))
            for part in target.elts if several else [target]:
                if isinstance(part, (ast.Name, ast.Attribute)):
                    item.binds |= stored(part)
        item.changes -= item.binds
    return item


def _expression(node: Any) -> Item:
    """What the expressions of a node read, change and store."""
    item = Item(node, False)
    own = own_variables(node)
    nodes = [*own_nodes([node])]
    called = {id(one.func) for one in nodes if isinstance(one, ast.Call)}
    # Of `self.x` only the attribute is read, of `self.f()` all that the object has.
    parts = {
        id(one.value) for one in nodes if isinstance(one, ast.Attribute) and id(one) not in called
    }
    for one in nodes:
        if isinstance(one, ast.Call):
            item.changes |= mutated_by(one)
        elif id(one) in called and isinstance(one, ast.Attribute):
            item.reads |= read(one.value)
        elif isinstance(one, (ast.Name, ast.Attribute, ast.Subscript)) and id(one) not in parts:
            if isinstance(one.ctx, ast.Load):
                item.reads |= read(one)
            else:
                item.changes |= stored(one)
    item.reads -= own
    item.changes -= own
    return item


def _through(statements: List[Any], bound: Set[str], item: Item) -> Set[str]:
    """Adds to `item` what a block does where the places `bound` have a value of its own.

    Returns:
        The places that have one behind the block, `bound` among them.
    """
    for one in statements:
        blocks = [block for _, _, block in blocks_of(one)]
        part = Item(one, False) if blocks else item_of(one)
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


def _header(node: Any) -> Item:
    """What the entered header of a block has done, of which nothing can be done again."""
    item = Item(node, True)
    targets: List[Any] = []
    if isinstance(node, (ast.For, ast.AsyncFor)):
        targets = [node.target]
    elif isinstance(node, WITHS):
        targets = [one.optional_vars for one in node.items if one.optional_vars is not None]
    for target in targets:
        for one in ast.walk(target):
            if isinstance(one, (ast.Name, ast.Attribute)) and not isinstance(one.ctx, ast.Load):
                item.binds |= stored(one)
    if isinstance(node, ast.Match):
        item.binds |= _captured(node)
    return item


def _captured(node: ast.AST) -> Set[str]:
    """The variables that patterns set."""
    names = (one.name for one in ast.walk(node) if isinstance(one, (ast.MatchAs, ast.MatchStar)))
    return {name for name in names if name}


def used_by_header(node: Any) -> Iterator[ast.expr]:
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


def own_variables(node: Any) -> Set[str]:
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


def value_of(scope: Dict[str, Any], place: str) -> Any:
    """What lies there, None for nothing."""
    root, _, attribute = place.partition(".")
    value = scope.get(root)
    return getattr(value, attribute, None) if attribute else value


def read(node: Any) -> Set[str]:
    """The place that an expression goes through; none where it begins with no variable."""
    place = place_of(node)
    return set() if place is None else {place}


def stored(node: Any) -> Set[str]:
    """The place that a target sets, or whose object it changes."""
    is_own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    return read(node if is_own or isinstance(node, ast.Name) else node.value)


def mutated_by(call: ast.Call) -> Set[str]:
    """The place of the object that a call changes, as far as the method's name says so."""
    name = getattr(call.func, "attr", "")
    in_place = name.endswith("_") and not name.endswith("__")
    if isinstance(call.func, ast.Attribute) and (name in _MUTATORS or in_place):
        return read(call.func.value)
    return set()


def _worked_on(call: ast.Call) -> Set[str]:
    """What a call whose value nobody takes may be there for."""
    if reports(ast.Expr(call)):
        return set()
    nodes = [*call.args, *(one.value for one in call.keywords)]
    if isinstance(call.func, ast.Attribute):
        nodes.append(call.func.value)
    return {place for node in nodes for place in read(node)}


def reports(node: ast.stmt) -> bool:
    """Whether a statement only tells somebody something."""
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    return bool(_REPORTS.match(last_name(node.value.func)))
