"""What an edit means: where the crashed frame goes on in it, and what above that is run again."""

from __future__ import annotations

import ast
import gc
import inspect
import types
from dataclasses import replace
from typing import Iterator, List, Optional

from paramedic.recovery import affected, again, attributes, chains, edit, names, remap, rerun
from paramedic.recovery.crash import Crash, Refused, Repair
from paramedic.recovery.repairs import (
    Plan,
    beginning,
    from_path,
    in_version,
    repeats_badly,
    rewound,
)
from paramedic.recovery.source import WITHS, Path, begin_of
from paramedic.recovery.stack import Standing


def plan(crash: Crash, repair: Repair, standings: List[Standing], region: int) -> Plan:
    """See `repairs.plan`."""
    made = edit.prepare(repair.patch or "", standings[-1].runtime.file)
    made.given = attributes.given(made, standings)
    standing = made.frame_to_go_on(standings)
    if standing is standings[-1] and repair.at is None and repeats_badly(crash, standing):
        # What the backward pass works on was made by the code as it was.
        return rewound(crash, standings, made)
    runtime = made.runtime_of(standing.runtime.file)
    found = in_version(standing, standing.path, runtime)
    found.edit = made
    changed = affected.new_constants(standing.function, found.function, standing.values())
    changed.update(affected.constants_around(standing.function, found.function, standing.values()))
    found.values.update(changed)
    if len(standings) > 1 and standing is standings[-1] and _is_overridden(made, standing):
        return _called_again(made, standings[-2])
    added = affected.new_parameters(standing.function, found.function)
    for name, default in added.items():
        if default is not None:
            found.values[name] = names.value_of(default, standing)
        elif len(standings) > 1 and standing is standings[-1]:
            # Only the caller can say.
            return _called_again(made, standings[-2])
    if repair.at is None:
        _refuse_for_suspended(made)
    moved = _moved(made, standing)
    if moved is None or moved.after or repair.at is not None:
        return found
    found = _after_a_raise(found, moved)

    def otherwise() -> Optional[Plan]:
        path = affected.earlier(standing.function, moved, made.names())
        if path is None:
            return None
        start = _from_its_makers(path, moved.path)
        before = from_path(standing, runtime, moved.function, start)
        before.edit = made
        before.values.update(changed)
        before.in_place = standing is standings[-1] and before.region == region
        if path[-1].block is moved.path[-1].block:
            before.tried = path[-1].block[start[-1].at : moved.path[-1].at + 1]
        return before

    # The failing statement is as it was, and so is all that it could call; or it wants more.
    fails_again = not moved.changed and made.changes_only(standing)
    found.fails_again = fails_again or affected.lacks_a_name(
        moved, {**standing.values(), **found.values}
    )
    found.otherwise = otherwise
    found.better = lambda: _here(_in_place(found, moved, made, standings), standings, region)
    found.anew = lambda: _here(_anew(found, moved, made, standings), standings, region)
    return found


def _called_again(made: edit.Edit, caller: Standing) -> Plan:
    found = in_version(caller, caller.path, made.runtime_of(caller.runtime.file))
    found.edit = made
    return found


def _is_overridden(made: edit.Edit, standing: Standing) -> bool:
    """Whether the call would reach another method now, which the edit adds to a derived class."""
    function = standing.function
    code = standing.frame.f_code
    if not function.class_name or not code.co_argcount:
        return False
    owner = standing.values().get(code.co_varnames[0])
    kinds = [kind.__name__ for kind in type(owner).__mro__]
    derived = kinds[: kinds.index(function.class_name)] if function.class_name in kinds else []
    return any(
        one.name == function.name and one.class_name in derived
        for file in made.files
        for one in file.added
    )


def _refuse_for_suspended(made: edit.Edit) -> None:
    """A generator that has begun goes on as it was: its items would not be those of the edit.

    Raises:
        Refused: there is one whose function the edit changes.
    """
    changed = {
        (one.after.file, function.qualname)
        for one in made.files
        for function in one.changed
        if function.code.co_flags & inspect.CO_GENERATOR
    }
    for one in gc.get_objects() if changed else ():
        if type(one) is not types.GeneratorType or one.gi_frame is None or one.gi_running:
            continue
        code = one.gi_code
        if (code.co_filename, code.co_qualname) in changed:
            raise Refused(
                f"{code.co_qualname}, which the edit changes, has begun and stands at line "
                f"{one.gi_frame.f_lineno}: it would go on as it was; say with --at LINE where it "
                f"begins anew"
            )


def _here(plans: Iterator[Plan], standings: List[Standing], region: int) -> Iterator[Plan]:
    for one in plans:
        one.in_place = one.standing is standings[-1] and one.region == region
        yield one


def begun(plan: Plan) -> Optional[str]:
    """In words, which blocks go on as they have begun although the edit changes their header."""
    moved = _moved(plan.edit, plan.standing) if plan.edit is not None else None
    around = {id(step.statement) for step in plan.target.path[:-1]}
    lines = [
        begin_of(new)[0]
        for old, new in (moved.pairs if moved is not None else ())
        if id(new) in around and isinstance(new, (ast.For, ast.AsyncFor, *WITHS))
        if remap.key(old) != remap.key(new)
    ]
    if not lines:
        return None
    return (
        f"line {', '.join(map(str, lines))} has begun as it was and goes on so: what the edit "
        f"changes there counts when it begins again (--at LINE)"
    )


def _moved(made: edit.Edit, standing: Standing) -> Optional[remap.Moved]:
    runtime = made.runtime_of(standing.runtime.file)
    return remap.follow(standing.runtime.source, standing.function, standing.path, runtime.source)


def _in_place(
    found: Plan, moved: remap.Moved, made: edit.Edit, standings: List[Standing]
) -> Iterator[Plan]:
    """Plans that run again what the edit changes above, and go on where the frame stood."""
    crashed = standings[-1]
    if found.standing is not crashed and _changes_only_above(found, moved):
        # The function that has been called need not be called once more.
        inside = _moved(made, crashed)
        if inside is not None and not inside.after and not inside.changed:
            runtime = made.runtime_of(crashed.runtime.file)
            within = replace(in_version(crashed, crashed.path, runtime), edit=made)
            within = _after_a_raise(within, inside)
            for what in chains.of(made, standings):
                yield _leading_to(within, inside, what)
    for what in chains.of(made, standings[: standings.index(found.standing) + 1]):
        yield _leading_to(found, moved, what)


def _anew(
    found: Plan, moved: remap.Moved, made: edit.Edit, standings: List[Standing]
) -> Iterator[Plan]:
    """Plans that run a block around the statement, or a call of its function, as a whole."""
    first = found.standing
    for depth in range(len(moved.path) - 2, -1, -1):
        path = moved.path[: depth + 1]
        if isinstance(path[-1].statement, (ast.For, ast.While, ast.If)):
            for one in _whole(first, moved, path, made, standings):
                yield replace(one, values=dict(found.values))
    for caller in reversed(standings[: standings.index(first)]):
        outer = _moved(made, caller)
        if outer is None or outer.after or outer.changed:
            return
        yield from _whole(caller, outer, outer.path, made, standings)


def _whole(
    standing: Standing,
    moved: remap.Moved,
    path: Path,
    made: edit.Edit,
    standings: List[Standing],
) -> Iterator[Plan]:
    is_block = path is not moved.path
    known = standings[: standings.index(standing) + 1]
    runtime = made.runtime_of(standing.runtime.file)
    for what in chains.of(made, known, path if is_block else None) or [chains.nothing(known)]:
        try:
            found = from_path(standing, runtime, moved.function, path)
        except Refused:
            return
        yield replace(found, edit=made, rerun=what, is_anew=True)


def _leading_to(found: Plan, moved: remap.Moved, what: rerun.Rerun) -> Plan:
    made = found
    if what.test is not None:
        path = moved.path[: what.test + 1]
        made = from_path(found.standing, found.runtime, moved.function, path)
    return replace(made, edit=found.edit, values=dict(found.values), rerun=what)


def _changes_only_above(found: Plan, moved: remap.Moved) -> bool:
    """Whether a function that is edited stays as it was from the statement on where it stands."""
    pairs = ((found.standing.path, moved.function), (moved.path, found.standing.function))
    for path, other in pairs:
        known = chains.dumps(other)
        line = begin_of(path[-1].statement)[0]
        below = [one for step in path for one in step.block[step.at :]]
        if any(begin_of(one)[0] >= line and ast.dump(one) not in known for one in below):
            return False
    return not moved.changed


def _after_a_raise(found: Plan, moved: remap.Moved) -> Plan:
    """A `raise` would only raise again: its test is made again, or its function begins anew."""
    last = moved.path[-1].statement
    if moved.changed or not isinstance(last, ast.Raise) or last.exc is None:
        return found
    test = affected.test_of_raise(moved.path)
    if test is None and not affected.can_begin_anew(found.standing.function):
        return found
    path = test or beginning(moved.function)
    made = from_path(found.standing, found.runtime, moved.function, path)
    made.edit, made.values = found.edit, found.values
    return made


def _from_its_makers(first: Path, last: Path) -> Path:
    """The way to the statement from which on all can be run again: nothing works on what it has
    changed itself."""
    above = last[: len(first)]
    for at in range(first[-1].at, -1, -1):
        if again.clobbered(above, at) is None:
            return [*first[:-1], first[-1]._replace(at=at)]
    reason = again.clobbered(above, first[-1].at)
    raise Refused(f"{reason}; say where to go on with --at LINE")
