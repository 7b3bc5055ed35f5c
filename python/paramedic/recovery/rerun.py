"""Runs what an edit changes above the failing statement again, where nothing speaks against it.

It is tried first, in a copy of the process: the statements as they were have to give what the frame
has now, and to change nothing else. Then their edited forms give what they would have given, no
side effect comes twice, and the frame goes on where it stood with the new values. A value that the
job passed to the crashed function is followed into it.
"""

from __future__ import annotations

import ast
import json
import types
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from paramedic.recovery import again, edit, live, names, observed, owners, remap
from paramedic.recovery import runtime as runtime_of
from paramedic.recovery.again import Slice
from paramedic.recovery.source import FUNCTIONS, Path, own_nodes, own_statements
from paramedic.recovery.stack import Standing

PASSED = "passed"
UNSAFE = "unsafe: "
MAX_CHAINS = 3  # that are tried for one edit
_CALLED_AS_OBJECT = ("forward", "__call__", "__getitem__", "__len__", "__iter__")
_CALLED_AS_CLASS = ("__init__", "__new__", "__post_init__")


@dataclass
class Work:
    """What follows upon what is run again."""

    install: Callable[[], None]  # puts the edit into effect
    values: Dict[str, Any]  # variables of the last frame that the edit gives besides
    run: Callable[[Dict[str, Any]], None]  # the statement at which the job goes on, with its names
    is_pure: bool  # it has run in part, and may not do anything but compute


@dataclass
class _Part:
    """A frame, and what is run again of it."""

    standing: Standing
    old: Slice  # of its own version
    new: Slice
    passed: Dict[str, str]  # variable of the function that it calls -> place that it was given

    @property
    def is_module(self) -> bool:
        return self.standing.function.kind == "module"

    @property
    def refused(self) -> Optional[str]:
        return self.new.refused or self.old.refused


class Rerun:
    """Everything that is run again for one edit."""

    def __init__(self, parts: List[_Part]) -> None:
        self._parts = parts
        self._undone: List[Any] = []  # what is put back afterwards

    @property
    def refused(self) -> Optional[str]:
        """Why it cannot be, as far as the text tells."""
        return next((one.refused for one in self._parts if one.refused), None)

    @property
    def lines(self) -> List[int]:
        """Where the statements stand whose values the edit changes."""
        return [line for one in self._parts for line in one.new.affected or one.old.affected]

    @property
    def test(self) -> Optional[int]:
        """How deep in its path the last frame's first `if` stands that is asked again."""
        return self._parts[-1].new.test

    def tried(self, work: Work) -> str:
        """In a copy of the process: `PASSED`, with the ways to what has to be put back, or why not.

        The statements as they were are run first. What they change of the job's objects, such as a
        counter, the edited ones have to change in the same way: then it is put back after them.
        """
        scopes = [names.scope_of(one.standing) for one in self._parts]
        try:
            found = self._held_elsewhere(scopes)
            roots = self._roots()
            watch = observed.Watch(roots)
            found = found or self._replayed(scopes, watch)
            before = watch.changes(self._written(scopes))
            kept = [one for one in before if observed.can_be_put_back(one.owner)]
            if found is None and len(kept) < len(before):
                found = f"it changes {observed.text_of(before[0])}"
        except Exception as error:
            found = f"as it was it raises {type(error).__name__} now"
        if found is not None:
            return UNSAFE + found
        for one in kept:
            observed.put_back(one.owner, observed.kept_of_state(one))
        begun = self._begun(scopes)
        work.install()
        scopes = [names.scope_of(one.standing) for one in self._parts]
        scopes[-1].update(work.values)
        watch = observed.Watch(roots)
        try:
            watch.during(lambda: self._run(scopes, is_new=True))
            if work.is_pure:
                watch.during(lambda: work.run(scopes[-1]))
            found = watch.cannot_be_undone() or _otherwise(
                before, watch.changes(self._written(scopes))
            )
            found = found or _parted(begun, self._begun(scopes))
            if found is None and not work.is_pure:
                self._write_outer(scopes)
                work.run(scopes[-1])
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        if found is not None:
            return UNSAFE + found
        return PASSED + json.dumps([one.way for one in before])

    def accept(self, answer: str) -> None:
        """Takes over what `tried` has found out in the copy; before the edit is in effect."""
        ways = json.loads(answer[len(PASSED) :] or "[]")
        roots = self._roots() if ways else []
        self._undone = [observed.at_the_end_of(tuple(way), roots) for way in ways]

    def _begun(self, scopes: List[Dict[str, Any]]) -> List[Tuple[int, str, Any]]:
        """What the headers of entered blocks have used: (line, its text, its value)."""
        return [
            (line, ast.unparse(used), _evaluated(used, scope))
            for part, scope in zip(self._parts, scopes)
            for line, used in [*part.old.begun, *part.new.begun]
        ]

    def _places(self, scopes: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
        return [
            {place: _value(scope, place) for place in part.old.places}
            for part, scope in zip(self._parts, scopes)
        ]

    def _held_elsewhere(self, scopes: List[Dict[str, Any]]) -> Optional[str]:
        """Whether something would keep an object that is made anew."""
        found = self._places(scopes)
        places = {id(v): place for values in found for place, v in values.items()}
        frames = [one.standing.frame.f_locals for one in self._parts]
        held = owners.held_elsewhere(
            [value for values in found for value in values.values()],
            [*found, *scopes, *frames, *self._modules()],
        )
        return None if held is None else f"something else has {places[id(held)]} as well"

    def _replayed(self, scopes: List[Dict[str, Any]], watch: observed.Watch) -> Optional[str]:
        """Why the values cannot be made again, None where they can."""
        before = self._places(scopes)
        watch.during(lambda: self._run(scopes, is_new=False))
        found = watch.cannot_be_undone()
        if found is not None:
            return f"it changes {found}"
        for scope, values in zip(scopes, before):
            for place, value in values.items():
                if not observed.is_equal(_value(scope, place), value):
                    return f"{place} is not what was made there any more"
        return None

    def carry_out(self, values: Dict[str, Any]) -> Dict[str, Any]:
        """The variables that the last frame is to go on with; the edit is in effect."""
        scopes = [names.scope_of(one.standing) for one in self._parts]
        scopes[-1].update(values)
        kept = [observed.kept_of(one) for one in self._undone]
        self._run(scopes, is_new=True)
        for owner, contents in zip(self._undone, kept):
            observed.put_back(owner, contents)
        self._write_outer(scopes)
        last = self._parts[-1]
        found = _variables(last, scopes[-1])
        for outer in self._parts[-2:-1]:
            found.update({name: scopes[-1][name] for name in outer.passed if name not in found})
        return found

    def _run(self, scopes: List[Dict[str, Any]], is_new: bool) -> None:
        """What was told is not told twice; variables of a module are as before in the end."""
        before = [(one, {**one.standing.frame.f_globals}) for one in self._parts if one.is_module]
        try:
            observed.silently(lambda: self._run_all(scopes, is_new))
        finally:
            for part, kept in before:
                places = part.old.places | part.new.places
                _write(part.standing, {place: kept[place] for place in places if place in kept})

    def _run_all(self, scopes: List[Dict[str, Any]], is_new: bool) -> None:
        given: Dict[str, Any] = {}
        for at, (part, scope) in enumerate(zip(self._parts, scopes)):
            scope.update(_of_modules(self._parts[:at], scopes, part))
            scope.update(given)
            chosen = part.new if is_new else part.old
            for name in chosen.fresh:
                scope.pop(name, None)  # that nothing uses a value from before
            for statement in chosen.statements:
                names.run_statements([statement], part.standing.runtime.file, scope)
                _write_shared(part.standing, scope, chosen.places)
            given = {name: _value(scope, place) for name, place in part.passed.items()}

    def _write_outer(self, scopes: List[Dict[str, Any]]) -> None:
        for part, scope in zip(self._parts[:-1], scopes):
            _write(part.standing, _variables(part, scope))

    def _roots(self) -> List[Any]:
        """All that the job's code can reach, in an order."""
        found: List[Any] = [*self._modules()]
        for part in self._parts:
            found.extend(names.scope_of(part.standing).values())
        return found

    def _modules(self) -> List[Dict[str, Any]]:
        """The variables of the job's modules."""
        runtimes = (runtime_of.newest(file) for file in sorted(runtime_of.files()))
        found = (live.globals_of(one) for one in runtimes if one is not None)
        return [scope for scope in found if scope is not None]

    def _written(self, scopes: List[Dict[str, Any]]) -> List[Any]:
        """The objects of which an attribute is set on purpose."""
        return [
            _value(scope, place.partition(".")[0])
            for part, scope in zip(self._parts, scopes)
            for place in {*part.old.places, *part.new.places}
            if "." in place
        ]


def _otherwise(before: List[observed.Change], now: List[observed.Change]) -> Optional[str]:
    """What the edited statements change of the objects, unless those as they were did so too."""
    known = {one.way: one for one in before}
    for one in now:
        other = known.pop(one.way, None)
        if other is None or not observed.is_equal(other.now, one.now):
            return f"it changes {observed.text_of(one)}"
    return None if not known else f"it changes {observed.text_of([*known.values()][0])} no more"


def _parted(before: List[Tuple[int, str, Any]], now: List[Tuple[int, str, Any]]) -> Optional[str]:
    """Which entered block goes on with something that has another value now."""
    for (line, text, value), (_, _, other) in zip(before, now):
        if not observed.is_equal(value, other):
            return f"line {line} has begun with {text} as it was"
    return None


def _evaluated(node: ast.expr, scope: Dict[str, Any]) -> Any:
    try:
        return eval(compile(ast.Expression(node), "<header>", "eval"), scope)
    except Exception as error:
        return error


def _variables(part: _Part, scope: Dict[str, Any]) -> Dict[str, Any]:
    return {name: scope[name] for name in part.new.places if "." not in name and name in scope}


def _value(scope: Dict[str, Any], place: str) -> Any:
    root, _, attribute = place.partition(".")
    value = scope.get(root)
    return getattr(value, attribute, None) if attribute else value


def _of_modules(outer: List[_Part], scopes: List[Dict[str, Any]], part: _Part) -> Dict[str, Any]:
    """The variables of its module that a function sees, made again."""
    found: Dict[str, Any] = {}
    for one, scope in zip(outer, scopes):
        if one.is_module and one.standing.frame.f_globals is part.standing.frame.f_globals:
            found.update(_variables(one, scope))
    return {name: one for name, one in found.items() if name not in _locals_of(part.standing)}


def _locals_of(standing: Standing) -> Set[str]:
    code = standing.frame.f_code
    return {*code.co_varnames, *code.co_cellvars, *code.co_freevars}


def _write(standing: Standing, values: Dict[str, Any]) -> None:
    if standing.function.kind == "module":
        standing.frame.f_globals.update(values)
    else:
        names.write(standing, values)


def _write_shared(standing: Standing, scope: Dict[str, Any], places: Set[str]) -> None:
    """Variables that functions see: a module's, and those of which there are cells, comprehensions
    of Python 3.11 among them."""
    code = standing.frame.f_code
    is_module = standing.function.kind == "module"
    shared = places if is_module else {*code.co_cellvars, *code.co_freevars} & places
    _write(standing, {name: scope[name] for name in shared if name in scope})


# ---------------------------------------------------------------------- working it out


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
    return Rerun([_Part(standings[-1], Slice(), Slice(), {})])


def _chain(
    standings: List[Standing],
    paths: List[Optional[remap.Moved]],
    start: int,
    changed: Set[str],
    whole: Optional[Path],
) -> List[_Part]:
    """The frames from number `start` on; what each gets of the one before it counts as changed."""
    parts: List[_Part] = []
    seeds: Set[str] = set()
    shared: Dict[int, Set[str]] = {}  # of modules, which their functions use
    for at in range(start, len(standings)):
        moved = paths[at]
        if moved is None:
            return []
        is_last = at == len(standings) - 1
        in_module = shared.setdefault(id(standings[at].frame.f_globals), set())
        seeds |= in_module - _locals_of(standings[at])
        part = _part(standings[at], moved, changed, seeds, whole if is_last else None)
        if not is_last and standings[at + 1].frame.f_back is standings[at].frame:
            places = part.new.places | part.old.places | seeds
            given = _given(standings[at], standings[at + 1])
            part.passed = {name: one for name, one in given.items() if again.meet({one}, places)}
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
) -> _Part:
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
        part = _Part(
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
        place = again.place_of(node)
        if place is not None and name in values and values[name] is _value(scope, place):
            found[name] = place
    return found


def _call_at(standing: Standing) -> Optional[ast.Call]:
    for node in own_nodes([standing.path[-1].statement]):
        if isinstance(node, ast.Call) and (node.lineno, node.col_offset) == standing.place:
            return node
    return None
