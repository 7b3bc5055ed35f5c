"""An edit is tried before it counts: the statement at which the job would go on, in a copy of the
process that can compute and nothing else (sandbox.py).

What raises there would raise in the job too, so the edit is refused and the job stays paused as it
was. Where the statement does more than compute, or cannot stand alone, nothing is known and the
edit is accepted as it is.
"""

from __future__ import annotations

import ast
import copy
from typing import Any, List

from paramedic.recovery import names, sandbox
from paramedic.recovery.crash import Refused
from paramedic.recovery.source import own_nodes

_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return, ast.Assert)
_NOT_ALONE = (ast.Await, ast.Yield, ast.YieldFrom)
_PASSED = "passed"
_NO_MEMORY = "MemoryError"


def checked(plan: Any) -> Any:
    """The plan of an edit, or the one that goes on at an earlier statement which it changes.

    Raises:
        Refused: the next statement raises.
    """
    try:
        _check(plan)
        return plan
    except Refused:
        earlier = plan.otherwise()
        if earlier is None:
            raise
        _check(earlier)
        return earlier


def _check(plan: Any) -> None:
    last = plan.target.path[-1].statement
    statements = plan.tried or [last]
    is_next = plan.target.instead is None and not plan.enters_a_block() and not plan.rewinds
    if not is_next or _may_be_handled(plan.target.path):
        return
    if not all(_stands_alone(plan, one) for one in statements):
        return
    answer = sandbox.run(lambda: _tried(plan, statements))
    if answer is None or answer.startswith((_PASSED, _NO_MEMORY)):
        return
    raise Refused(f"the edited statement was tried on a copy of the process and raises {answer}")


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
        name = getattr(node, "attr", None) or getattr(node, "id", None) or ""
        is_private = name.startswith("__") and not name.endswith("__")
        if name in ("super", "__class__", "locals") or (is_private and plan.function.class_name):
            return False
    return True


def _tried(plan: Any, statements: List[ast.stmt]) -> str:
    """In the copy: runs the statements in the new version; how that ended."""
    plan.commit()
    body: List[ast.stmt] = []
    for statement in statements:
        node = copy.deepcopy(statement)
        if isinstance(node, ast.Return):
            node = ast.copy_location(ast.Expr(node.value or ast.Constant(None)), node)
        body.append(ast.fix_missing_locations(node))
    scope = {**names.scope_of(plan.standing), **plan.values}
    code = compile(ast.Module(body, []), plan.runtime.file, "exec", dont_inherit=True)
    try:
        exec(code, scope)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        # The copy has less memory than the job.
        return _NO_MEMORY if "alloc" in text.lower() else text
    return _PASSED
