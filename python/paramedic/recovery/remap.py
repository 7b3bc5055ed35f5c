"""Finds the statement of an edited source that corresponds to one of the source before.

Blocks are compared statement by statement: simple ones as a whole, compound ones by their header.
What stands new and directly before a failing statement belongs to its repair, and runs first.
"""

from __future__ import annotations

import ast
import difflib
from dataclasses import dataclass, field
from typing import Any, List, Optional, Tuple

from paramedic.recovery.source import LAMBDA, Function, Path, Source, Step, blocks_of, own_text

MIN_RATIO = 0.6  # of two statements' texts, for one to be taken for an edited form of the other


@dataclass
class Moved:
    """A path in the edited source."""

    function: Function
    path: Path
    after: bool = False  # the statement is gone, and was the last: go on behind the path's end
    changed: bool = False  # the statement is not as it was, or something stands new before it
    pairs: List[Tuple[Any, Any]] = field(default_factory=list)  # (before, now) of what is around it


def counterpart(before: Source, function: Function, now: Source) -> Optional[Function]:
    """The same function in the edited source: of several of one name, the one in its place."""
    if before is now:
        return function
    same = [one for one in before.functions if one.qualname == function.qualname]
    found = [one for one in now.functions if one.qualname == function.qualname]
    if function.name == LAMBDA and len(found) != len(same):
        return None  # nothing tells which of them it is
    at = next(i for i, one in enumerate(same) if one is function)
    if at < len(found):
        return found[at]
    return None


def follow(before: Source, function: Function, path: Path, now: Source) -> Optional[Moved]:
    """Where in `now` the statement at the end of `path` stands; None where nothing corresponds."""
    target = counterpart(before, function, now)
    if target is None:
        return None
    if before is now:
        pairs = [(step.statement, step.statement) for step in path]
        return Moved(function, path, pairs=pairs)
    moved = Moved(target, [])
    # Text that is the same has the same statements, in the same places.
    is_same = function.kind != "module" and own_text(before, function) == own_text(now, target)
    block, owner, name = target.body, None, "body"
    for depth, step in enumerate(path):
        is_last = depth == len(path) - 1
        at, changed = step.at, False
        if not is_same:
            at, changed = _align(step.block, step.at, block, is_last)
        moved.changed = moved.changed or changed
        if is_last:
            if at >= len(block):
                moved.after = True
                at = len(block) - 1
            moved.path.append(Step(block, at, owner, name))
            return moved if block else None
        if at >= len(block):
            return None
        entered = _enter(block, at, step, owner, name)
        if entered is None:
            return None
        moved.path += entered
        old, new = step.statement, entered[-1].statement
        moved.pairs.append((old, new))
        found = _same_block(path[depth + 1], old, new)
        if found is None:
            return None
        owner, name, block = found
    return None


def _enter(
    block: List[ast.stmt], at: int, step: Step, owner: Any, name: str
) -> Optional[List[Step]]:
    """The steps to the counterpart of a compound statement, through one put around it."""
    old, new = step.statement, block[at]
    if type(new) is type(old):
        return [Step(block, at, owner, name)]
    if not isinstance(new, (ast.With, ast.AsyncWith, ast.Try, ast.If)):
        return None
    for i, inner in enumerate(new.body):
        if type(inner) is type(old) and key(inner) == key(old):
            return [Step(block, at, owner, name), Step(new.body, i, new, "body")]
    return None


def _same_block(below: Step, old: Any, new: Any) -> Any:
    """(owner, name, block) in `new` of the block of `old` to which `below` belongs."""
    if below.owner is old:
        block = getattr(new, below.name, None)
        return (new, below.name, block) if block is not None else None
    for list_name in ("handlers", "cases"):
        parts = getattr(old, list_name, None) or []
        others = getattr(new, list_name, None) or []
        for i, part in enumerate(parts):
            if part is below.owner:
                return (others[i], "body", others[i].body) if i < len(others) else None
    return None


def _align(old: List[ast.stmt], index: int, new: List[ast.stmt], is_last: bool) -> Tuple[int, bool]:
    """(index in `new` of the statement old[index], whether it is changed)."""
    keys = [key(one) for one in old], [key(one) for one in new]
    codes = difflib.SequenceMatcher(None, *keys, autojunk=False).get_opcodes()
    for n, (tag, i1, i2, j1, j2) in enumerate(codes):
        if not i1 <= index < i2:
            continue
        if tag == "equal":
            at = j1 + index - i1
            if is_last and index == i1 and n > 0:
                start = _inserted_from(codes[n - 1], old, new)
                return (start, True) if start < at else (at, False)
            return at, False
        if tag == "delete":
            return j1, True
        at = _replaced(old[i1:i2], index - i1, new[j1:j2], is_last)
        return j1 + at, True
    return len(new), True


def _inserted_from(code: Any, old: List[ast.stmt], new: List[ast.stmt]) -> int:
    """The first statement before `code`'s end in `new` that has no counterpart in `old`."""
    tag, i1, i2, j1, j2 = code
    if tag == "insert":
        return int(j1)
    if tag == "replace":
        return int(j1) + _replaced(old[i1:i2], i2 - i1, new[j1:j2], True)
    return int(j2)


def _replaced(old: List[ast.stmt], index: int, new: List[ast.stmt], is_last: bool) -> int:
    """Where in `new` what replaces old[index] begins: after what replaces those before it."""
    if len(old) == len(new):
        return index
    texts = [ast.unparse(one) for one in old], [ast.unparse(one) for one in new]
    if not is_last and index < len(old):
        same = [i for i, one in enumerate(new) if type(one) is type(old[index])]
        if len(same) == 1:
            return same[0]
    at = 0
    for text in texts[0][:index]:
        ratios = [
            difflib.SequenceMatcher(None, text, other, autojunk=False).ratio()
            for other in texts[1][at:]
        ]
        if ratios and max(ratios) >= MIN_RATIO:
            at += ratios.index(max(ratios)) + 1
    return at


def key(node: ast.stmt) -> str:
    """The text by which a statement is known: of a compound one only the header."""
    if not any(True for _ in blocks_of(node)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return f"{type(node).__name__} {node.name}"
        return ast.dump(node)
    header: List[str] = [type(node).__name__]
    for name, value in ast.iter_fields(node):
        if name in ("body", "orelse", "finalbody"):
            continue
        if name == "handlers":
            header += [ast.dump(one.type) if one.type else "" for one in value]
        elif name == "cases":
            header += [ast.dump(one.pattern) for one in value]
        elif isinstance(value, ast.AST):
            header.append(ast.dump(value))
        elif isinstance(value, list):
            header += [ast.dump(one) for one in value if isinstance(one, ast.AST)]
    return " ".join(header)
