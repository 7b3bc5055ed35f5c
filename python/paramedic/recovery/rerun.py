"""Runs what an edit changes above the failing statement again, where nothing speaks against it.

It is tried first, in a copy of the process: the statements as they were have to give what the frame
has now, and to change nothing else. Then their edited forms give what they would have given, no
side effect comes twice, and the frame goes on where it stood with the new values. A value that the
job passed to the crashed function is followed into it.
"""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from paramedic.recovery import live, names, observed, owners
from paramedic.recovery import runtime as runtime_of
from paramedic.recovery.again import Slice
from paramedic.recovery.places import value_of
from paramedic.recovery.stack import Standing

PASSED = "passed"
UNSAFE = "unsafe: "


@dataclass
class Work:
    """What follows upon what is run again."""

    install: Callable[[], None]  # puts the edit into effect
    values: Dict[str, Any]  # variables of the last frame that the edit gives besides
    run: Callable[[Dict[str, Any]], None]  # the statement at which the job goes on, with its names
    is_pure: bool  # it has run in part, and may not do anything but compute


@dataclass
class Part:
    """A frame, and what is run again of it."""

    standing: Standing
    old: Slice  # of its own version
    new: Slice
    passed: Dict[str, str]  # variable of the function that it calls -> place that it was given
    lost: Optional[str] = None  # why what it makes anew does not reach that function

    @property
    def is_module(self) -> bool:
        return self.standing.function.kind == "module"

    @property
    def refused(self) -> Optional[str]:
        return self.new.refused or self.old.refused or self.lost


class Rerun:
    """Everything that is run again for one edit."""

    def __init__(self, parts: List[Part]) -> None:
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
            {place: value_of(scope, place) for place in part.old.places}
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
                if not observed.is_equal(value_of(scope, place), value):
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
            given = {name: value_of(scope, place) for name, place in part.passed.items()}

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
            value_of(scope, place.partition(".")[0])
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


def _variables(part: Part, scope: Dict[str, Any]) -> Dict[str, Any]:
    return {name: scope[name] for name in part.new.places if "." not in name and name in scope}


def _of_modules(outer: List[Part], scopes: List[Dict[str, Any]], part: Part) -> Dict[str, Any]:
    """The variables of its module that a function sees, made again."""
    found: Dict[str, Any] = {}
    for one, scope in zip(outer, scopes):
        if one.is_module and one.standing.frame.f_globals is part.standing.frame.f_globals:
            found.update(_variables(one, scope))
    return {name: one for name, one in found.items() if name not in locals_of(part.standing)}


def locals_of(standing: Standing) -> Set[str]:
    """The names of its function's own variables, and of those that it shares with another."""
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
