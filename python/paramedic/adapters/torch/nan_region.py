"""The statements of an iteration, out of the file that a frame runs, compiled to run once more."""

import ast
import linecache
from types import CodeType, FrameType
from typing import Any, Iterator, List, Optional, Set, Tuple

from paramedic.adapters.common.source import names_of


def regions(frame: FrameType) -> Iterator[Tuple[ast.AST, List[ast.stmt]]]:
    """The statements to repeat: bodies of the loops around the frame's line, then all of it."""
    filename, line = frame.f_code.co_filename, frame.f_lineno
    text = "".join(linecache.getlines(filename, frame.f_globals))
    if not text:
        return
    chain: List[Tuple[ast.AST, List[ast.stmt]]] = []
    node: ast.AST = ast.parse(text)
    while True:
        inner = _body_around(node, line)
        if inner is None:
            break
        body, statement = inner
        chain.append((node, body[: body.index(statement) + 1]))
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            chain = []  # What is outside of the function runs in another frame.
        node = statement
    for owner, body in reversed(chain):
        # Never a whole script: it would train from its start.
        if isinstance(owner, (ast.For, ast.While, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield owner, _after_last_step(body)


def bound(statement: ast.AST) -> Set[str]:
    """Variables that a statement sets."""
    return {
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def stored_at(frame: Optional[FrameType], thing: Any) -> Optional[Tuple[str, int, str]]:
    """The statement of an iteration that makes `thing`, which a variable of the frame holds."""
    names = set(names_of(thing, frame))
    if frame is None or not names:
        return None
    code = frame.f_code
    for _, body in regions(frame):
        for node in (inner for statement in reversed(body) for inner in ast.walk(statement)):
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and names & bound(node):
                return code.co_filename, node.lineno, code.co_name
    return None


def _body_around(node: ast.AST, line: int) -> Optional[Tuple[List[ast.stmt], ast.stmt]]:
    for field in ("body", "orelse", "finalbody", "handlers"):
        body = getattr(node, field, None)
        if isinstance(body, list):
            # The last of several on one line: the alarm may be in any of them.
            for statement in reversed(body):
                if _holds(statement, line):
                    return body, statement
    return None


def _holds(node: ast.AST, line: int) -> bool:
    first = getattr(node, "lineno", 0)
    return bool(first and first <= line <= (getattr(node, "end_lineno", 0) or first))


def _after_last_step(body: List[ast.stmt]) -> List[ast.stmt]:
    """Without what comes before an update in the same body (GANs): it has been applied."""
    first = 0
    for at, statement in enumerate(body[:-1]):
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            function = statement.value.func
            if isinstance(function, ast.Attribute) and function.attr == "step":
                first = at + 1
    return body[first:]


class _Loosen(ast.NodeTransformer):
    """Makes statements of a function legal in a module."""

    def visit_Return(self, node: ast.Return) -> Any:  # noqa: N802
        return ast.copy_location(ast.Expr(node.value or ast.Constant(None)), node)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> Any:  # noqa: N802
        return ast.copy_location(ast.Pass(), node)

    def visit_Yield(self, node: ast.Yield) -> Any:  # noqa: N802
        return node.value or ast.copy_location(ast.Constant(None), node)

    def visit_Call(self, node: ast.Call) -> Any:  # noqa: N802
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
            node.args = [
                ast.copy_location(ast.Name(name, ast.Load()), node)
                for name in ("__class__", "self")
            ]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:  # noqa: N802
        return node

    def visit_Lambda(self, node: ast.Lambda) -> Any:  # noqa: N802
        return node


def bind(target: ast.expr) -> CodeType:
    """Sets a loop's variables to `_paramedic_value`."""
    assign = ast.Assign([target], ast.Name("_paramedic_value", ast.Load()))
    module = ast.Module([ast.copy_location(assign, target)], [])
    return compile(ast.fix_missing_locations(module), "<turn>", "exec")


def compile_region(statements: List[ast.stmt], filename: str) -> Optional[CodeType]:
    """One turn of a loop over the statements, with the lines of the file; None if impossible."""
    body = [_Loosen().visit(statement) for statement in statements]
    turn = ast.For(
        target=ast.Name("_paramedic_turn", ast.Store()),
        iter=ast.Tuple([ast.Constant(0)], ast.Load()),
        body=body,
        orelse=[],
    )
    ast.copy_location(turn, statements[0])
    module = ast.Module([turn], [])
    ast.fix_missing_locations(module)
    try:
        return compile(module, filename, "exec")
    except (SyntaxError, ValueError):
        return None
