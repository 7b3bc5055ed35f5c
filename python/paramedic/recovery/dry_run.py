"""An edit is tried before it counts: the statement at which the job would go on, in a copy of the
process that can compute and nothing else (sandbox.py).

What raises there would raise in the job too, so the edit is refused and the job stays paused as it
was. Where the statement does more than compute, or cannot stand alone, nothing is known and the
edit is accepted as it is.
"""

from __future__ import annotations

import ast
from typing import Any, Callable, Dict, Iterator, List, Set

from paramedic._syntax import last_name
from paramedic.recovery import names, sandbox
from paramedic.recovery import rerun as rerun_of
from paramedic.recovery.crash import Refused
from paramedic.recovery.source import own_nodes

_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return, ast.Assert)
_NOT_ALONE = (ast.Await, ast.Yield, ast.YieldFrom)
_PASSED = rerun_of.PASSED
_NO_MEMORY = "MemoryError"
LIMIT_S = 6.0  # of copies' own time, for all that can be thought of that runs something above again


class _Trials:
    """Copies of the process in which one edit is tried."""

    def __init__(self) -> None:
        self._left_s = LIMIT_S
        self.refused: Set[int] = set()  # lines that could not be run again

    @property
    def are_over(self) -> bool:
        return self._left_s <= 0

    def run(self, work: Callable[[], str]) -> sandbox.Answer:
        answer = sandbox.run(work)
        self._left_s -= answer.took_s
        return answer


def checked(plan: Any) -> Any:
    """The plan of an edit, or the one that goes on at an earlier statement which it changes.

    Raises:
        Refused: the next statement raises.
    """
    trials = _Trials()
    better = _first_of(plan, plan.better(), trials)
    if better is None and plan.note:
        better = _first_of(plan, plan.anew(), trials)
    if better is not None:
        return better
    earlier = plan.otherwise() if plan.fails_again else None
    if earlier is not None:
        _check(earlier)
        return earlier
    try:
        _check(plan)
        return plan
    except Refused as refused:
        better = _first_of(plan, plan.anew(), trials) if not plan.note else None
        if better is not None:
            return better
        earlier = plan.otherwise()
        if earlier is None:
            raise Refused(f"{refused}; {plan.note}") if plan.note else refused from None
        _check(earlier)
        return earlier


def _first_of(plan: Any, plans: Iterator[Any], trials: _Trials) -> Any:
    for one in plans:
        if trials.are_over:
            break
        if _is_better(plan, one, trials):
            if trials.refused <= {*one.rerun.lines}:
                one.note = ""
            return one
    return None


def _is_better(plan: Any, better: Any, trials: _Trials) -> bool:
    """Whether what the edit changes above can be run again; else a note says why not."""
    rerun = better.rerun
    last = better.target.path[-1].statement
    is_anew = better.is_anew
    can_run = is_anew and _computes(better, last) or _can_be_tried(better, [last])
    if is_anew and not can_run:
        return False

    def run(scope: Dict[str, Any]) -> None:
        if can_run:
            names.run_statements([last], better.runtime.file, scope)

    work = rerun_of.Work(better.edit.install, better.values, run, is_anew)
    why = rerun.refused
    if why is None:
        answer = trials.run(lambda: rerun.tried(work))
        if answer.text is not None and answer.text.startswith(_PASSED):
            rerun.accept(answer.text)
            return True
        why = (answer.text or answer.why).replace(rerun_of.UNSAFE, "")
    if rerun.lines and not is_anew:
        # The next frame's, where it is that of several, is the last.
        trials.refused.update(rerun.lines)
        lines = ", ".join(str(line) for line in sorted({*rerun.lines}))
        plan.note = (
            f"line {lines}, whose values the edit changes, was not run again ({why}); to go on "
            f"further up say --at LINE"
        )
    return False


def _computes(plan: Any, statement: Any) -> bool:
    """Whether a block means the same outside of its function, and leads nowhere else."""
    if isinstance(statement, _SIMPLE):
        return _stands_alone(plan, statement)
    leaves = (ast.Return, ast.Raise, ast.Global, ast.Nonlocal, ast.Import, ast.ImportFrom, ast.With)
    inner = [ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef]
    return not any(isinstance(one, (*leaves, *inner, *_NOT_ALONE)) for one in ast.walk(statement))


def _check(plan: Any) -> None:
    last = plan.target.path[-1].statement
    statements = plan.tried or [last]
    if not _can_be_tried(plan, statements):
        return
    answer = sandbox.run(lambda: _tried(plan, statements)).text
    if answer is None or answer.startswith((_PASSED, _NO_MEMORY)):
        return
    raise Refused(f"the edited statement was tried on a copy of the process and raises {answer}")


def _can_be_tried(plan: Any, statements: List[ast.stmt]) -> bool:
    is_next = plan.target.instead is None and not plan.enters_a_block() and not plan.rewinds
    if not is_next or _may_be_handled(plan.target.path):
        return False
    return all(_stands_alone(plan, one) for one in statements)


def _may_be_handled(path: Any) -> bool:
    """Whether a `try` around the statement, new or old, may want what it raises."""
    return any(
        below.owner is step.statement and below.name == "body" and step.statement.handlers
        for step, below in zip(path, path[1:])
        if hasattr(step.statement, "handlers")
    )


def _stands_alone(plan: Any, statement: Any) -> bool:
    """Whether it means the same outside of its function."""
    if not isinstance(statement, _SIMPLE):
        return False
    for node in own_nodes([statement]):
        if isinstance(node, _NOT_ALONE):
            return False
        name = last_name(node)
        is_private = name.startswith("__") and not name.endswith("__")
        if name in ("super", "__class__", "locals") or (is_private and plan.function.class_name):
            return False
    return True


def _tried(plan: Any, statements: List[ast.stmt]) -> str:
    """In the copy: runs the statements in the new version; how that ended."""
    plan.commit()
    return _ran(plan, statements, {**names.scope_of(plan.standing), **plan.values})


def _ran(plan: Any, statements: List[ast.stmt], scope: Dict[str, Any]) -> str:
    try:
        names.run_statements(statements, plan.runtime.file, scope)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        # The copy has less memory than the job.
        return _NO_MEMORY if "alloc" in text.lower() else text
    return _PASSED
