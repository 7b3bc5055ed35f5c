"""Code of a person, run in a crashed frame: it sees the frame's names, and sets them."""

from __future__ import annotations

import ast
import copy
import ctypes
import sys
from typing import Any, Dict, List, Set

from paramedic.recovery import bytecode, live
from paramedic.recovery.crash import Refused
from paramedic.recovery.stack import Standing


def execute(standing: Standing, code: str) -> Dict[str, Any]:
    """Runs `code`; globals are set at once.

    Returns:
        The locals that it has set, shared ones included.
    """
    frame = standing.frame
    try:
        compiled = compile(code, "<repair>", "exec")
    except (SyntaxError, ValueError) as error:
        raise Refused(f"the code does not compile: {error}") from None
    if standing.function.kind == "module":
        _run(compiled, frame.f_globals)
        return {}
    scope = scope_of(standing)
    before = dict(scope)
    _run(compiled, scope)
    changed: Dict[str, Any] = {}
    known = {*frame.f_code.co_varnames, *frame.f_code.co_cellvars, *frame.f_code.co_freevars}
    # The frame's own: what its function looks up there, and what the code itself calls global.
    shared = live.global_names(standing.function.code) | _stored_globals(compiled)
    for name, value in scope.items():
        if name == "__builtins__" or (name in before and before[name] is value):
            continue
        if name in known:
            changed[name] = value
        elif name in shared:
            frame.f_globals[name] = value
    return changed


def _stored_globals(code: Any) -> Set[str]:
    instructions = bytecode.read(code).instructions
    return {code.co_names[one.argument] for one in instructions if one.name == "STORE_GLOBAL"}


def evaluate(standing: Standing, expression: str) -> Any:
    """The value of an expression in the frame."""
    try:
        return eval(compile(expression, "<repair>", "eval"), scope_of(standing))
    except Exception as error:
        raise Refused(f"{expression!r} has no value: {_text(error)}") from None


def value_of(default: ast.expr, standing: Standing) -> Any:
    """The value of a parameter's default, which the file's own names say."""
    try:
        code = compile(ast.Expression(default), "<default>", "eval")
        return eval(code, standing.frame.f_globals)
    except Exception as error:
        raise Refused(f"the default {ast.unparse(default)} has no value: {_text(error)}") from None


def write(standing: Standing, values: Dict[str, Any]) -> None:
    """Sets locals of a frame that goes on by itself."""
    frame = standing.frame
    if not values:
        return
    local = frame.f_locals
    local.update(values)
    if sys.version_info < (3, 13):
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


def scope_of(standing: Standing) -> Dict[str, Any]:
    """All names of the frame in one dict, a copy, so that functions and comprehensions in code that
    is run with it see the locals as well."""
    frame = standing.frame
    local = {name: value for name, value in frame.f_locals.items() if not name.startswith(".")}
    return {**frame.f_globals, **local}


def run_statements(statements: List[ast.stmt], file: str, scope: Dict[str, Any]) -> None:
    """Runs statements of the job by themselves with the names of `scope`, which they change.

    Of a `return` the value is computed, and nothing else.
    """
    body: List[ast.stmt] = []
    for statement in statements:
        node = copy.deepcopy(statement)
        if isinstance(node, ast.Return):
            node = ast.copy_location(ast.Expr(node.value or ast.Constant(None)), node)
        body.append(ast.fix_missing_locations(node))
    exec(compile(ast.Module(body, []), file, "exec", dont_inherit=True), scope)


def _run(code: Any, scope: Dict[str, Any]) -> None:
    try:
        exec(code, scope)
    except BaseException as error:
        raise Refused(f"the code raised {_text(error)}") from None


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:500]
