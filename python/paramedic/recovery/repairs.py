"""What each repair means: which frame goes on, at which statement, with which values."""

from __future__ import annotations

import ast
import types
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from paramedic.recovery import (
    affected,
    contexts,
    edit,
    iterators,
    names,
    remap,
    remedies,
    rerun,
    residual,
)
from paramedic.recovery import runtime as runtime_of
from paramedic.recovery.crash import Crash, Refused, Repair
from paramedic.recovery.residual import HANDLED, PENDING, VALUE, Target
from paramedic.recovery.runtime import Leave, Runtime
from paramedic.recovery.source import (
    LOOPS,
    WITHS,
    Function,
    Path,
    Step,
    begin_of,
    number_of,
    own_nodes,
    statement_at_line,
)
from paramedic.recovery.stack import Standing, regions_of
from paramedic.recovery.training import is_training_call, loop_id, steppers, trains
from paramedic.recovery.transform import JUMP, RESULT, SUBJECT


@dataclass
class Plan:
    """A repair, ready to be carried out."""

    standing: Standing  # the frame that goes on
    runtime: Runtime  # of the version of the source in which it goes on
    function: Function
    target: Target
    region: int  # the barrier of the frame at which its continuation takes over
    in_place: bool  # that is the barrier which has met the crash
    kept: Path  # as far as it stays entered, in the frame's own version
    renamed: Dict[str, str]  # hidden locals whose number another version has changed
    edit: Optional[edit.Edit] = None
    values: Dict[str, Any] = field(default_factory=dict)  # to be set first
    skips: bool = False  # the failed iteration is left
    rewinds: bool = False  # what the iteration changed has been put back
    # Where an edit's next statement would only raise again: the plan that goes on before it.
    otherwise: Callable[[], Optional[Plan]] = lambda: None
    fails_again: bool = False  # the next statement, as nothing that it could use is edited
    rerun: Optional[rerun.Rerun] = None  # what stands above and is run again for its values
    is_anew: bool = False  # the statement has run in part: it has to be found to compute only
    # Plans with what stands above run again, which go on where the frame stood, or begin a block or
    # a call anew: the first against which nothing speaks is taken.
    better: Callable[[], Iterator[Plan]] = lambda: iter(())
    anew: Callable[[], Iterator[Plan]] = lambda: iter(())
    note: str = ""  # for whoever asked for the repair
    tried: List[ast.stmt] = field(default_factory=list)  # what an edit's trial runs
    half: Any = None  # written.Half: what the failing statement has written already

    def check(self) -> None:
        """Raises Refused where the continuation cannot be built."""
        cells = self._frame_cells()
        if self.function.kind == "module":
            residual.code_of_module(self.runtime, self.target, set(self._values(None)))
            return
        bound = sorted(name for name in self._values(None) if name not in cells)
        residual.code_of(self.runtime, self.function, self.target, bound, cells)

    def enters_a_block(self) -> bool:
        """Whether the continuation first enters a `with` that an edit has put around it."""
        return len(_entered_withs(self.target.path)) > len(_entered_withs(self.kept))

    def commit(self) -> None:
        """Puts the edit into effect."""
        if self.edit is not None:
            self.edit.install()
        if self.rerun is not None:
            self.values.update(self.rerun.carry_out(self.values))

    def leave(self, error: BaseException, cells: Any) -> Leave:
        """How the frame goes on; called at its barrier."""
        if self.half is not None:
            self.half.take_back()
        scope = self.standing.frame.f_globals
        values = self._values(error)
        if self.function.kind == "module":
            slots = self.runtime.slots
            for name, value in values.items():
                setattr(slots, name, value)
            scope.update(self.values)
            return Leave(residual.of_module(self.runtime, self.target, set(values), scope))
        shared: Dict[str, types.CellType] = {}
        if cells is not None:
            shared = dict(zip(cells.__code__.co_freevars, cells.__closure__ or ()))
        for name, value in self.values.items():
            if name in shared:
                shared[name].cell_contents = value
            else:
                values[name] = value
        return Leave(
            residual.of_function(self.runtime, self.function, self.target, values, shared, scope)
        )

    def let_go(self) -> None:
        """The blocks that stay open are the continuation's from now on."""
        values = self.standing.values()
        for node in _entered_withs(self.kept):
            contexts.let_go(values.get(f".w{number_of(node)}"))

    def _frame_cells(self) -> List[str]:
        code = self.standing.frame.f_code
        return [*code.co_cellvars, *code.co_freevars]

    def _values(self, error: Optional[BaseException]) -> Dict[str, Any]:
        """The locals that the continuation starts with; hidden ones under their new names."""
        found: Dict[str, Any] = {}
        hidden: Dict[str, Any] = {}
        for name, value in self.standing.values().items():
            (hidden if name.startswith(".") else found)[name] = value
        if error is not None:
            iterators.revive(self.standing, self.kept, hidden, error)
        for name in _needed(self.kept, self.target):
            value = hidden.get(name)
            is_any = name == RESULT or name.startswith(SUBJECT)
            if value is not None or (is_any and name in hidden):
                found[self.renamed.get(name, name)] = value
        found.update(_handled_exceptions(self.kept, self.standing, error, self.renamed))
        if self.target.instead == "return":
            found[VALUE] = self.values.get(VALUE)
        return found


def _entered_withs(path: Path) -> List[Any]:
    return [
        step.statement
        for step, below in zip(path, path[1:])
        if isinstance(step.statement, WITHS) and below.name == "body"
    ]


def _needed(path: Path, target: Target) -> List[str]:
    """The hidden locals of what stays entered."""
    found = [f".w{number_of(node)}" for node in _entered_withs(path)]
    for step in path:
        if isinstance(step.statement, (ast.For, ast.AsyncFor)):
            found.append(f".i{number_of(step.statement)}")
    for step, below in zip(path, path[1:]):
        if below.name == "finalbody":
            found += [RESULT, f"{JUMP}{number_of(step.statement)}"]
    last = path[-1].statement
    if target.instead == "case":
        found.append(f"{SUBJECT}{number_of(last)}")
    if isinstance(last, LOOPS) and target.instead != "header":
        found = [name for name in found if name != f".i{number_of(last)}"]
    return found


def _handled_exceptions(
    path: Path, standing: Standing, error: Optional[BaseException], renamed: Dict[str, str]
) -> Dict[str, Any]:
    """The exceptions whose handlers, or whose `finally`, the frame is in."""
    entered = [
        (step, below)
        for step, below in zip(path, path[1:])
        if isinstance(below.owner, ast.ExceptHandler) or below.name == "finalbody"
    ]
    if not entered:
        return {}
    handled = _being_handled(standing, error)
    outer = sum(isinstance(below.owner, ast.ExceptHandler) for _, below in entered)
    found: Dict[str, Any] = {}
    for step, below in reversed(entered):  # innermost first, as `handled` is
        if isinstance(below.owner, ast.ExceptHandler):
            outer -= 1
            name = f"{HANDLED}{number_of(below.owner)}"
            value = standing.frame.f_locals.get(below.owner.name) if below.owner.name else None
            if isinstance(value, BaseException):
                handled = handled[handled.index(value) + 1 :] if value in handled else handled
            else:
                value = handled.pop(0) if handled else None
        else:
            name = f"{PENDING}{number_of(step.statement)}"
            value = handled.pop(0) if len(handled) > outer else None
        if value is not None:
            found[renamed.get(name, name)] = value
    return found


def _being_handled(standing: Standing, error: Optional[BaseException]) -> List[BaseException]:
    """The exceptions that the frame was handling when `error` was raised, innermost first."""
    hidden = [
        value
        for name, value in standing.values().items()
        if name.startswith((HANDLED, PENDING)) and isinstance(value, BaseException)
    ]
    found: List[BaseException] = []
    current = error.__context__ if error is not None else None
    while current is not None and len(found) < MAX_CONTEXTS:
        if any(current is one for one in hidden) or _has_passed(current, standing.frame):
            found.append(current)
        current = current.__context__
    return found


MAX_CONTEXTS = 100


def _has_passed(error: BaseException, frame: Any) -> bool:
    entry = error.__traceback__
    while entry is not None:
        if entry.tb_frame is frame:
            return True
        entry = entry.tb_next
    return False


# ---------------------------------------------------------------------- the kinds


def plan(crash: Crash, repair: Repair, standings: List[Standing], region: int) -> Plan:
    """Works a repair out; raises Refused where it cannot be carried out."""
    from paramedic.recovery import edited

    crashed = standings[-1]
    repair = remedies.prepare(crash, repair, crashed.frame if crashed.at_header() else None)
    if repair.kind == "edit":
        found = edited.plan(crash, repair, standings, region)
    elif repair.kind == "skip":
        found = _skipped(crash, repair, standings)
    elif repair.kind == "rewind":
        found = rewound(crash, standings)
    elif repair.kind == "rollback":
        found = _rolled_back(crash, repair, standings)
    elif repair.kind == "return":
        found = _returned(repair, standings)
    elif repair.kind == "action":
        values = _act(repair, standings)
        found = _retried(crash, standings, is_changed=True)
        found.values = values
    elif repair.kind == "retry":
        found = _retried(crash, _up_to_chosen(repair, standings))
    else:
        raise Refused(f"there is no repair of kind {repair.kind!r}")
    if repair.at is not None:
        found = _at(repair, standings, found)
    found.in_place = found.standing is crashed and found.region == region
    if found.in_place and found.target.instead is None:
        found.half = crashed.half
    return found


def _stay(standing: Standing, path: Path, instead: Optional[str] = None) -> Plan:
    """Goes on at `path` of the frame's own version, in the newest one."""
    runtime = runtime_of.newest(standing.runtime.file) or standing.runtime
    return in_version(standing, path, runtime, instead)


def in_version(
    standing: Standing, path: Path, runtime: Runtime, instead: Optional[str] = None
) -> Plan:
    moved = remap.follow(standing.runtime.source, standing.function, path, runtime.source)
    if moved is None and affected.is_branch_just_entered(path):
        # What the edit puts in the place of the whole `if` has not run either.
        return in_version(standing, path[:-1], runtime, instead)
    if moved is None:
        raise Refused(
            f"{standing.function.qualname} has no counterpart of the statement at line "
            f"{begin_of(path[-1].statement)[0]} any more"
        )
    if moved.after and instead is None:
        instead = "after"
    if instead is None and not moved.changed and path is standing.path and standing.at_header():
        instead = "header"
    target = Target(moved.path, instead)
    case = standing.case() if path is standing.path and not moved.changed else None
    if instead is None and case is not None:
        target = Target(moved.path, "case", case)
    return Plan(
        standing,
        runtime,
        moved.function,
        target,
        regions_of(path)[-1],
        True,
        path,
        _renamed(moved, path),
    )


def _renamed(moved: remap.Moved, path: Path) -> Dict[str, str]:
    found: Dict[str, str] = {}
    pairs = list(moved.pairs)
    last: Any = path[-1].statement
    if isinstance(last, (*LOOPS, ast.Match)) and type(last) is type(moved.path[-1].statement):
        pairs.append((last, moved.path[-1].statement))
    for old, new in pairs:
        for prefix in (".i", ".w", PENDING, JUMP, SUBJECT):
            if hasattr(old, "slot") and hasattr(new, "slot"):
                found[f"{prefix}{number_of(old)}"] = f"{prefix}{number_of(new)}"
        for one, other in zip(getattr(old, "handlers", ()), getattr(new, "handlers", ())):
            found[f"{HANDLED}{number_of(one)}"] = f"{HANDLED}{number_of(other)}"
    return found


def _retried(crash: Crash, standings: List[Standing], is_changed: bool = False) -> Plan:
    """`is_changed`: somebody has put something right in the meantime."""
    standing = standings[-1]
    if repeats_badly(crash, standing):
        # Run again it would add to gradients, or to weights, that are half done.
        return rewound(crash, standings)
    last = standing.path[-1].statement
    if isinstance(last, ast.Raise) and last.exc is not None and standing.has_raised:
        return _raised(standings, is_changed)
    return _stay(standing, standing.path)


def _raised(standings: List[Standing], is_changed: bool) -> Plan:
    """After a `raise`, which would only raise again: its test is made again, or the call."""
    standing = standings[-1]
    test = affected.test_of_raise(standing.path)
    if test is not None and (is_changed or affected.can_come_out_otherwise(test[-1].statement)):
        return _stay(standing, test)
    if affected.can_begin_anew(standing.function):
        start = beginning(standing.function)
        return from_path(standing, standing.runtime, standing.function, start)
    for caller in standings[-2:-1]:
        is_direct = caller.frame is standing.frame.f_back and not caller.at_header()
        if is_direct and standing.function.kind == "function":
            return _stay(caller, caller.path)
    return _stay(standing, test or standing.path)


def repeats_badly(crash: Crash, standing: Standing) -> bool:
    """Whether the failing statement stands inside a backward pass or an optimizer's step."""
    statement = standing.path[-1].statement
    if not any(
        isinstance(node, ast.Call) and is_training_call(node) for node in own_nodes([statement])
    ):
        return False
    rewinder = _rewinder()
    return rewinder is not None and bool(rewinder.needs_rewind(crash, standing.frame))


def _skipped(crash: Crash, repair: Repair, standings: List[Standing]) -> Plan:
    only_a_sample = bool(repair.options and repair.options.get("sample"))
    for standing in reversed(standings):
        if standing.at_header() and remedies.leave_out(crash, repair, standing.frame):
            found = _stay(standing, standing.path, "header")
            found.skips = True
            return found
        for depth in range(len(standing.path) - 2, -1, -1):
            below = standing.path[depth + 1]
            if only_a_sample:
                break
            if isinstance(standing.path[depth].statement, LOOPS) and below.name == "body":
                rewinder = _rewinder()
                if rewinder is not None:
                    rewinder.check_ranks()
                    if rewinder.needs_rewind(crash, standing.frame):
                        rewinder.check_exchanged()
                    # What is half done is no part of the next iteration.
                    rewinder.undo_part(crash, _number(standing, depth), standing.frame)
                found = _stay(standing, standing.path, "continue")
                found.skips = True
                return found
    if only_a_sample:
        raise Refused("the crash is none of a sample that a loop's header loads")
    raise Refused("there is no loop around the crash whose next iteration could be taken")


def rewound(crash: Crash, standings: List[Standing], made: Optional[edit.Edit] = None) -> Plan:
    standing, depth, is_training = _loop_to_rewind(standings)
    if is_training:
        rewinder = _rewinder()
        if rewinder is None:
            raise Refused("nothing keeps what an iteration changes")
        rewinder.put_back(crash, _number(standing, depth))
    start = _iteration_start(standing, depth)
    if made is None:
        return _stay(standing, start)
    found = in_version(standing, start, made.runtime_of(standing.runtime.file))
    found.edit, found.rewinds = made, True
    return found


def _rolled_back(crash: Crash, repair: Repair, standings: List[Standing]) -> Plan:
    """Goes on with weights from before, at the start of the iteration or with the next one."""
    options: Dict[str, Any] = repair.options if repair.options is not None else {}
    standing, depth, is_training = _loop_to_rewind(standings)
    rewinder = _rewinder()
    if rewinder is None or not is_training:
        raise Refused("there is no iteration of a training around the crash")
    factor = float(options.get("rate_factor", 1.0))
    again = not options.get("skip_data", True)
    options["done"] = rewinder.roll_back(crash, _number(standing, depth), factor, again)
    if again:
        return _stay(standing, _iteration_start(standing, depth))
    # The state is that from before the data which did the harm; on with the next.
    found = _stay(standing, _iteration_start(standing, depth), "continue")
    found.skips = True
    return found


def beginning(function: Function) -> Path:
    first: Any = function.body[0]
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return [Step(function.body, int(is_text and len(function.body) > 1), None, "body")]


def _iteration_start(standing: Standing, depth: int) -> Path:
    loop: Any = standing.path[depth].statement
    return [*standing.path[: depth + 1], Step(loop.body, 0, loop, "body")]


def _number(standing: Standing, depth: int) -> int:
    """By which the marks of a loop on the path are known."""
    loop = standing.path[depth].statement
    return loop_id(standing.runtime.file, standing.function.key, number_of(loop))


def _loop_to_rewind(standings: List[Standing]) -> Tuple[Standing, int, bool]:
    innermost: Optional[Tuple[Standing, int, bool]] = None
    for standing in reversed(standings):
        stepping = steppers(standing.runtime.source)
        for depth in range(len(standing.path) - 2, -1, -1):
            node: Any = standing.path[depth].statement
            if not isinstance(node, LOOPS) or standing.path[depth + 1].name != "body":
                continue
            if trains(node.body, stepping):
                return standing, depth, True
            innermost = innermost or (standing, depth, False)
    if innermost is None:
        raise Refused("there is no loop around the crash whose iteration could be run again")
    return innermost


def _rewinder() -> Any:
    try:
        from paramedic.recovery import rewind

        return rewind.rewinder()
    except (ImportError, Refused):
        return None


def _up_to_chosen(repair: Repair, standings: List[Standing]) -> List[Standing]:
    if not -len(standings) <= repair.frame < len(standings):
        raise Refused(f"there are {len(standings)} frames, none with number {repair.frame}")
    return standings[: repair.frame % len(standings) + 1]


def _returned(repair: Repair, standings: List[Standing]) -> Plan:
    standing = _up_to_chosen(repair, standings)[-1]
    if standing.function.kind == "module":
        raise Refused("a module's body cannot return a value")
    value = names.evaluate(standing, repair.value or "None")
    found = _stay(standing, standing.path, "return")
    found.values[VALUE] = value
    return found


def _act(repair: Repair, standings: List[Standing]) -> Dict[str, Any]:
    """Runs code in a frame; what it binds in the crashed frame, for the continuation."""
    standing = _up_to_chosen(repair, standings)[-1]
    values = names.execute(standing, repair.code or "")
    if standing is standings[-1]:
        return values
    names.write(standing, values)
    return {}


def _at(repair: Repair, standings: List[Standing], before: Plan) -> Plan:
    """The same repair, but going on at an earlier statement."""
    assert repair.at is not None
    file, line = repair.at
    for standing in reversed(standings):
        if not edit.same_file(standing.runtime.file, file):
            continue
        runtime = before.runtime
        if before.edit is not None:
            runtime = before.edit.runtime_of(standing.runtime.file)
        elif before.standing.runtime.file != standing.runtime.file:
            runtime = runtime_of.newest(standing.runtime.file) or standing.runtime
        function = remap.counterpart(standing.runtime.source, standing.function, runtime.source)
        path = statement_at_line(function.body, line) if function is not None else None
        if function is None or path is None or begin_of(path[-1].statement)[0] > line:
            continue
        found = from_path(standing, runtime, function, path)
        found.edit, found.values = before.edit, before.values
        return found
    raise Refused(f"no frame on the stack stands in the function of {file}:{line}")


def from_path(standing: Standing, runtime: Runtime, function: Function, path: Path) -> Plan:
    """Goes on at `path`, all of whose blocks the frame must be in already."""
    moved = remap.follow(standing.runtime.source, standing.function, standing.path, runtime.source)
    if moved is None:
        raise Refused("the statement that failed is gone; resume at its own function's start")
    now = {id(new): old for old, new in moved.pairs}
    kept: Path = []
    for depth, (step, below) in enumerate(zip(path, path[1:])):
        old = now.get(id(step.statement))
        entered = isinstance(step.statement, (*LOOPS, *WITHS)) and below.name == "body"
        inside = isinstance(below.owner, ast.ExceptHandler) or below.name == "finalbody"
        if (entered or inside) and old is None:
            line = begin_of(path[-1].statement)[0]
            raise Refused(f"line {line} is inside a block that the job is not in")
        if old is not None and depth < len(standing.path):
            kept = standing.path[: _depth_of(standing.path, old) + 1]
    first = [*kept, *standing.path[len(kept) : len(kept) + 1]] or standing.path[:1]
    target = Target(path, None)
    return Plan(
        standing,
        runtime,
        function,
        target,
        regions_of(first)[-1],
        True,
        first,
        _renamed(moved, standing.path),
    )


def _depth_of(path: Path, statement: Any) -> int:
    return next(i for i, step in enumerate(path) if step.statement is statement)
