"""Where a frame goes on if the failing statement could only fail again.

Whoever edits an earlier line means that it counts: the frame goes on at the first statement of the
same iteration that the edit changes, or that names a function which it changes. And a `raise` would
only raise: the test that led to it is made again.
"""

from __future__ import annotations

import ast
import re
from typing import Any, Dict, Iterator, List, Optional, Set

from paramedic._syntax import last_name
from paramedic.recovery.remap import Moved
from paramedic.recovery.source import (
    FUNCTIONS,
    LOOPS,
    Function,
    Path,
    Step,
    own_nodes,
    own_statements,
)
from paramedic.recovery.training import is_training_call

# What a call that takes many steps is called.
_TRAINS = re.compile(r"train|fit|epoch|step", re.IGNORECASE)


def earlier(before: Function, moved: Moved, names: Set[str]) -> Optional[Path]:
    """The way to the first affected statement before `moved`, None where there is none.

    Args:
        before: the function as the frame runs it.
        moved: where the failing statement stands in the edited function.
        names: of the functions that the edit changes.
    """
    known = {ast.dump(one) for one in own_statements(before.body) if isinstance(one, ast.stmt)}
    tests = {id(new): ast.dump(old.test) for old, new in moved.pairs if isinstance(old, ast.If)}
    found: Optional[Path] = None
    for depth in range(len(moved.path) - 1, -1, -1):
        step = moved.path[depth]
        below = moved.path[depth + 1] if depth + 1 < len(moved.path) else None
        if below is not None and _is_entered_for_good(step, below):
            break
        affected = [*_affected(step, known, names)]
        node = step.statement
        is_around = below is not None and isinstance(node, ast.If)
        if is_around and tests.get(id(node)) != ast.dump(node.test):  # type: ignore[attr-defined]
            affected.append(step.at)
        if affected:
            found = [*moved.path[:depth], step._replace(at=affected[0])]
    return found if found is not None and not _has_trained(found, moved.path, known) else None


def lacks_a_name(moved: Moved, values: Dict[str, Any]) -> bool:
    """Whether the edited statement reads a variable of its function that has no value yet."""
    statement: Any = moved.path[-1].statement
    if moved.function.kind == "module" or hasattr(statement, "body"):
        return False
    code = moved.function.code
    own = {*code.co_varnames, *code.co_cellvars} - {*values}
    used = [node for node in own_nodes([statement]) if isinstance(node, ast.Name)]
    # Variables of comprehensions have no value before the statement either.
    own -= {node.id for node in used if isinstance(node.ctx, ast.Store)}
    return any(node.id in own for node in used)


def _is_entered_for_good(step: Step, below: Step) -> bool:
    """Whether what stands before the statement belongs to another iteration, or to no handler."""
    if isinstance(step.statement, LOOPS) and below.name == "body":
        return True
    return isinstance(below.owner, ast.ExceptHandler) or below.name == "finalbody"


def _affected(step: Step, known: Set[str], names: Set[str]) -> Iterator[int]:
    for at, one in enumerate(step.block[: step.at]):
        if isinstance(one, (*FUNCTIONS, ast.ClassDef)):
            continue
        if ast.dump(one) not in known or (names and names & {*_names_in(one)}):
            yield at


def _names_in(statement: ast.stmt) -> Iterator[str]:
    node: Any
    for node in own_nodes([statement]):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def _has_trained(first: Path, last: Path, known: Set[str]) -> bool:
    """Whether a statement between the two has learnt from data, or may have: twice is too often."""
    depth = len(first) - 1
    between = first[-1].block[first[-1].at : last[depth].at]
    if any(isinstance(one, LOOPS) and ast.dump(one) in known for one in between):
        return True
    for one in own_nodes(between):
        if isinstance(one, ast.Call) and (
            is_training_call(one) or _TRAINS.search(last_name(one.func))
        ):
            return True
    return False


def test_of_raise(path: Path) -> Optional[Path]:
    """The way to the `if` or `match` in a branch of which a `raise` stands, None without one."""
    last = path[-1].statement
    if not isinstance(last, ast.Raise) or last.exc is None:
        return None
    depth = len(path) - 2
    if depth < 0 or not isinstance(path[depth].statement, (ast.If, ast.Match)):
        return None
    # An `elif` is an `if` alone in the `else` of another.
    while depth > 0 and path[depth].name == "orelse" and len(path[depth].block) == 1:
        if not isinstance(path[depth - 1].statement, ast.If):
            break
        depth -= 1
    return path[: depth + 1]


def can_come_out_otherwise(test: ast.stmt) -> bool:
    """Whether the test of an `if` or `match` asks something outside of the frame."""
    asked: Any = getattr(test, "test", None) or getattr(test, "subject", None)
    return any(isinstance(node, (ast.Call, ast.Await)) for node in ast.walk(asked))


def can_begin_anew(function: Function) -> bool:
    """Whether a running function still has the arguments that it was called with."""
    if function.kind != "function":
        return False
    node: Any = function.node
    named = {one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)}
    stored = (one for one in own_nodes(node.body) if isinstance(one, ast.Name))
    return not any(one.id in named for one in stored if not isinstance(one.ctx, ast.Load))


def is_branch_just_entered(path: Path) -> bool:
    """Whether the statement is the first in a branch of an `if` or `match`."""
    return (
        len(path) > 1 and path[-1].at == 0 and isinstance(path[-2].statement, (ast.If, ast.Match))
    )


def new_constants(before: Function, now: Function, values: Dict[str, Any]) -> Dict[str, Any]:
    """The variables that both set once, to a literal which the edit changes, with the new value.

    Only those that still have the old one: what the job has added to a list is no constant.
    """
    if before.kind == "module":
        return {}
    old, new = _literals(before), _literals(now)
    return {
        name: new[name]
        for name, value in old.items()
        if name in new and name in values and _is_same(values[name], value)
        if not _is_same(new[name], value)
    }


def constants_around(before: Function, now: Function, values: Dict[str, Any]) -> Dict[str, Any]:
    """The same of the functions in which a closure was defined, of the variables that it uses."""
    found: Dict[str, Any] = {}
    old, new = before.outer, now.outer
    own = {name: values[name] for name in before.code.co_freevars if name in values}
    while old is not None and new is not None:
        found = {**new_constants(old, new, own), **found}
        old, new = old.outer, new.outer
    return found


def _literals(function: Function) -> Dict[str, Any]:
    stored: Dict[str, int] = {}
    found: Dict[str, Any] = {}
    for node in own_nodes(function.body):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            stored[node.id] = stored.get(node.id, 0) + 1
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                found[node.targets[0].id] = ast.literal_eval(node.value)
            except (ValueError, TypeError, SyntaxError):
                continue
    return {name: value for name, value in found.items() if stored[name] == 1}


def _is_same(value: Any, other: Any) -> bool:
    """Whether a value is the literal `other`; nothing of the job's own runs for that."""
    if type(value) is not type(other) or isinstance(other, set):
        return False
    if isinstance(other, dict):
        return _is_same([*value.items()], [*other.items()])
    if isinstance(other, (list, tuple)):
        return len(value) == len(other) and all(map(_is_same, value, other))
    return bool(value == other)


def new_parameters(before: Function, now: Function) -> Dict[str, Optional[ast.expr]]:
    """The parameters that an edit adds, with the defaults that they have."""
    old, new = before.node, now.node
    if isinstance(old, ast.Module) or isinstance(new, ast.Module):
        return {}
    known = {one.arg for one in ast.walk(old.args) if isinstance(one, ast.arg)}
    named = [*new.args.posonlyargs, *new.args.args]
    without: List[Optional[ast.expr]] = [None] * (len(named) - len(new.args.defaults))
    found: Dict[str, Optional[ast.expr]] = {}
    for one, value in zip(named, [*without, *new.args.defaults]):
        found[one.arg] = value
    for one, value in zip(new.args.kwonlyargs, new.args.kw_defaults):
        found[one.arg] = value
    return {name: value for name, value in found.items() if name not in known}
