"""An edit is tried before it counts: the statement at which the job would go on, in a copy of the
process that can compute and nothing else (sandbox.py).

What raises there would raise in the job too, so the edit is refused and the job stays paused as it
was. Where the statement does more than compute, or cannot stand alone, nothing is known and the
edit is accepted as it is.
"""

from __future__ import annotations

import ast
import copy
from typing import Any, Dict, List

from paramedic.recovery import sandbox
from paramedic.recovery.crash import Refused
from paramedic.recovery.source import own_nodes

_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return, ast.Assert)
_NOT_ALONE = (ast.Await, ast.Yield, ast.YieldFrom)
_PASSED = "passed"
_NO_MEMORY = "MemoryError"


def check(plan: Any) -> None:
    """Refuses a plan of an edit whose next statement raises."""
    statement = plan.target.path[-1].statement
    is_next = plan.target.instead is None and not plan.enters_a_block()
    if not is_next or _may_be_handled(plan.target.path) or not _stands_alone(plan, statement):
        return
    answer = sandbox.run(lambda: _tried(plan, statement))
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


def _tried(plan: Any, statement: Any) -> str:
    """In the copy: runs the statement in the new version; how it ended."""
    plan.commit()
    node = copy.deepcopy(statement)
    if isinstance(node, ast.Return):
        node = ast.copy_location(ast.Expr(node.value or ast.Constant(None)), node)
    ast.fix_missing_locations(node)
    frame = plan.standing.frame
    # One scope, so that a comprehension sees the locals too.
    scope: Dict[str, Any] = {**frame.f_globals}
    scope.update((name, value) for name, value in frame.f_locals.items() if name[0] != ".")
    body: List[ast.stmt] = [node]
    code = compile(ast.Module(body, []), plan.runtime.file, "exec", dont_inherit=True)
    try:
        exec(code, scope)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        # The copy has less memory than the job.
        return _NO_MEMORY if "alloc" in text.lower() else text
    return _PASSED
