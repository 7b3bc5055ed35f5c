"""Whether a loop over a loader ends with the loader alone, or may be left earlier.

Read from the source of the line that iterates: ranks whose loaders differ in length are no danger
where each leaves its loop after an equal number of batches.
"""

from __future__ import annotations

import ast
import linecache
from typing import Optional

from paramedic._syntax import last_name

PLAIN = "plain"  # `for … in loader:` without a way out
MAY_LEAVE = "may_leave"
UNKNOWN = "unknown"
MAX_LINES = 20_000
_LIMITING = {"zip", "islice", "range", "takewhile"}


def shape_of(filename: str, line: int) -> str:
    """PLAIN, MAY_LEAVE or UNKNOWN, of the loop whose header is at this line."""
    lines = linecache.getlines(filename)
    if not lines or len(lines) > MAX_LINES:
        return UNKNOWN
    try:
        loop = _loop_at(ast.parse("".join(lines)), line)
    except (SyntaxError, ValueError, RecursionError):
        return UNKNOWN
    if loop is None:
        return UNKNOWN
    if any(
        last_name(node.func) in _LIMITING
        for node in ast.walk(loop.iter)
        if isinstance(node, ast.Call)
    ):
        return MAY_LEAVE
    return MAY_LEAVE if any(_leaves(statement, False) for statement in loop.body) else PLAIN


def _loop_at(tree: ast.AST, line: int) -> Optional[ast.For]:
    found = None
    for node in ast.walk(tree):
        if isinstance(node, ast.For):
            last = getattr(node.iter, "end_lineno", node.iter.lineno) or node.iter.lineno
            # An inner one comes later in the walk.
            if node.lineno <= line <= last:
                found = node
    return found


def _leaves(node: ast.AST, inner: bool) -> bool:
    """Whether a statement of a loop's body may end the loop; `inner` inside another loop."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
        return False
    if isinstance(node, ast.Return) or (isinstance(node, ast.Break) and not inner):
        return True
    inner = inner or isinstance(node, (ast.For, ast.While, ast.AsyncFor))
    return any(_leaves(child, inner) for child in ast.iter_child_nodes(node))
