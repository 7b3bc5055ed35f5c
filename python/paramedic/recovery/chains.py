"""Which frames an edit reaches above the one that goes on, and what is run again of each.

A value that a frame makes anew and has passed to the function it called is followed into that one,
and so are the variables of a module into its functions: a chain of frames.
"""

from __future__ import annotations

import ast
import types
from typing import Any, Dict, List, Optional, Set, Tuple

from paramedic.recovery import affected, again, edit, live, names, remap
from paramedic.recovery import runtime as runtime_of
from paramedic.recovery.again import Slice
from paramedic.recovery.places import item_of, meet, place_of, value_of
from paramedic.recovery.rerun import Part, Rerun, locals_of
from paramedic.recovery.source import FUNCTIONS, Path, own_nodes, own_statements
from paramedic.recovery.stack import Standing

MAX_CHAINS = 3  # that are tried for one edit
_CALLED_AS_OBJECT = ("forward", "__call__", "__getitem__", "__len__", "__iter__")
_CALLED_AS_CLASS = ("__init__", "__new__", "__post_init__")


def of(made: edit.Edit, standings: List[Standing], whole: Optional[Path] = None) -> List[Rerun]:
    """The ways to run what stands above again for an edit, the best one first.

    Args:
        made: the edit.
        standings: the frames up to the one that goes on.
        whole: of the edited function of the last one, to a block that is to run anew as a whole.
    """
    changed = _names(made)
    paths = [_in_edited(made, one) for one in standings]
    if paths[-1] is None:
        return []
    found: List[Rerun] = []
    lines: List[List[int]] = []
    for start in range(len(standings)):
        chain = _chain(standings, paths, start, changed, whole)
        first = chain[0] if chain else None
        is_affected = first is not None and (first.new.affected or first.old.affected)
        if chain and (is_affected or (whole is not None and start == len(standings) - 1)):
            made_of = Rerun(chain)
            if made_of.lines not in lines or whole is not None:
                found.append(made_of)
                lines.append(made_of.lines)
    return found[-MAX_CHAINS:]


def nothing(standings: List[Standing]) -> Rerun:
    """That nothing above the last frame's statement need be run again."""
    return Rerun([Part(standings[-1], Slice(), Slice(), {})])


def _chain(
    standings: List[Standing],
    paths: List[Optional[remap.Moved]],
    start: int,
    changed: Set[str],
    whole: Optional[Path],
) -> List[Part]:
    """The frames from number `start` on; what each gets of the one before it counts as changed."""
    parts: List[Part] = []
    seeds: Set[str] = set()
    shared: Dict[int, Set[str]] = {}  # of modules, which their functions use
    for at in range(start, len(standings)):
        moved = paths[at]
        if moved is None:
            return []
        is_last = at == len(standings) - 1
        in_module = shared.setdefault(id(standings[at].frame.f_globals), set())
        seeds |= in_module - locals_of(standings[at])
        if is_last:
            one = standings[at]
            seeds |= {*affected.constants_around(one.function, moved.function, one.values())}
        part = _part(standings[at], moved, changed, seeds, whole if is_last else None)
        if not is_last and standings[at + 1].frame.f_back is standings[at].frame:
            places = part.new.places | part.old.places | seeds
            given = _given(standings[at], standings[at + 1])
            part.passed = {name: one for name, one in given.items() if meet({one}, places)}
            part.lost = _lost(standings[at], places, {*given.values()})
        seeds = set(part.passed)
        if part.is_module:
            in_module |= part.new.places | part.old.places
        parts.append(part)
    return parts


def _in_edited(made: edit.Edit, standing: Standing) -> Optional[remap.Moved]:
    runtime = made.runtime_of(standing.runtime.file)
    return remap.follow(standing.runtime.source, standing.function, standing.path, runtime.source)


def _part(
    standing: Standing,
    moved: remap.Moved,
    changed: Set[str],
    seeds: Set[str],
    whole: Optional[Path],
) -> Part:
    changed = changed | _objects(standing, changed)
    kept = _never_changed(standing)
    path, old_path = whole or moved.path, standing.path
    if whole is not None:
        before = {id(new): old for old, new in moved.pairs}
        old = before.get(id(whole[-1].statement))
        at = next((i for i, one in enumerate(old_path) if one.statement is old), len(old_path) - 1)
        old_path = old_path[: at + 1]
    is_whole = whole is not None
    known, old_known = dumps(standing.function), dumps(moved.function)
    while True:
        part = Part(
            standing,
            again.slice_of(old_path, old_known, changed, seeds, kept, is_whole),
            again.slice_of(path, known, changed, seeds, kept, is_whole),
            {},
        )
        places = {place.partition(".")[0] for place in part.old.places | part.new.places}
        users = _callers(places) - places if standing.function.kind == "module" else set()
        if users <= changed:
            return part
        # Functions that use a variable of the module give other values too.
        changed = changed | users


def dumps(function: Any) -> Set[str]:
    """By which the statements of a function, and the tests of its `if`s, are known."""
    found: Set[str] = set()
    for one in own_statements(function.body):
        if isinstance(one, ast.stmt):
            found.add(ast.dump(one))
        if isinstance(one, ast.If):
            found.add(ast.dump(one.test))
    return found


def _names(made: edit.Edit) -> Set[str]:
    """Of what the edit changes: functions, classes that make objects otherwise, constants."""
    found = made.names() - {*_CALLED_AS_CLASS, *_CALLED_AS_OBJECT}
    for one in made.files:
        for function in one.changed:
            if function.class_name and function.name in _CALLED_AS_CLASS:
                found.add(function.class_name)
            elif function.class_name and function.name in _CALLED_AS_OBJECT:
                found.add(f"{function.class_name}()")
        for node in edit.top_level(one):
            found |= _bound(node, one.before)
    return _callers(found)


def _callers(changed: Set[str]) -> Set[str]:
    """With the names of the functions that come to a changed one, through however many."""
    uses: Dict[str, Set[str]] = {}
    for file in runtime_of.files():
        runtime = runtime_of.newest(file)
        for function in runtime.source.functions[1:] if runtime is not None else ():
            name = function.class_name if function.name in _CALLED_AS_CLASS else function.name
            uses.setdefault(name, set()).update(live.all_names(function.code))
    found = set(changed)
    for _ in range(len(uses)):
        more = {name for name, used in uses.items() if name not in found and used & found}
        if not more:
            break
        found |= more
    return found - {*_CALLED_AS_OBJECT}


def _bound(node: Any, before: Any) -> Set[str]:
    """The names and the attributes of classes that a changed statement of a module gives values."""
    if isinstance(node, ast.ClassDef):
        known = {
            ast.dump(part)
            for one in before.source.tree.body
            if isinstance(one, ast.ClassDef) and one.name == node.name
            for part in one.body
        }
        changed = [one for one in node.body if ast.dump(one) not in known]
        body = [one for one in changed if not isinstance(one, (*FUNCTIONS, ast.ClassDef))]
        return {name for one in body for name in _bound(one, before)}
    return {
        one.id
        for one in own_nodes([node])
        if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)
    }


def _objects(standing: Standing, changed: Set[str]) -> Set[str]:
    """The names of objects that are called, or asked for items, by a method that is changed."""
    classes = {one[:-2] for one in changed if one.endswith("()")}
    if not classes:
        return set()
    return {
        name
        for name, value in names.scope_of(standing).items()
        if any(kind.__name__ in classes for kind in type(value).__mro__)
    }


def _never_changed(standing: Standing) -> Set[str]:
    """The names of modules, functions and classes: what is called with them leaves them alone."""
    kinds = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type)
    return {name for name, one in names.scope_of(standing).items() if isinstance(one, kinds)}


def _given(outer: Standing, inner: Standing) -> Dict[str, str]:
    """Which variables of `inner` were given which places of `outer`, and still have that value."""
    call = _call_at(outer)
    if call is None:
        return {}
    code = inner.function.code
    named = [*code.co_varnames[: code.co_argcount]]
    pairs: List[Tuple[str, ast.expr]] = []
    function = call.func
    if inner.function.class_name and named:
        # `x.f()`, or `x()`.
        objects = [function.value] if isinstance(function, ast.Attribute) else []
        pairs += [(named[0], one) for one in [*objects, function]]
        named = named[1:]
    pairs += zip(named, call.args)
    pairs += [(one.arg, one.value) for one in call.keywords if one.arg is not None]
    scope, values = names.scope_of(outer), names.scope_of(inner)
    found: Dict[str, str] = {}
    for name, node in pairs:
        place = place_of(node)
        if place is not None and name in values and values[name] is value_of(scope, place):
            found[name] = place
    return found


def _lost(outer: Standing, places: Set[str], given: Set[str]) -> Optional[str]:
    """Why what a call was given cannot follow into its function: it was not passed as it is."""
    call = _call_at(outer)
    reads = item_of(ast.Expr(call)).reads if call is not None else set()
    lost = sorted(place for place in reads - given if meet({place}, places))
    if call is None or not lost:
        return None
    return f"line {call.lineno} has called with {lost[0]} as it was"


def _call_at(standing: Standing) -> Optional[ast.Call]:
    for node in own_nodes([standing.path[-1].statement]):
        if isinstance(node, ast.Call) and (node.lineno, node.col_offset) == standing.place:
            return node
    return None
