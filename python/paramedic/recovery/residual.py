"""The statements that complete a function which stands at some statement inside it.

Blocks around that statement are entered again without their beginning: a loop goes on with its live
iterator, a `with` with its open manager, a handler with the exception it handles. `finally` stands
around the rest as it stood around the whole.
"""

from __future__ import annotations

import ast
import types
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Set

from paramedic.recovery import runtime as runtime_of
from paramedic.recovery.source import LOOPS, WITHS, Function, Path, number_of, own_statements
from paramedic.recovery.transform import (
    CONTINUATION,
    JUMP,
    RESULT,
    TOKEN,
    Transform,
    _with_block,
    assign,
    call,
    compiled,
    drive_async_generator,
    load,
    runtime,
    without_lines,
)

HANDLED = ".h"  # with a handler's number: the exception that it handles
FIRST = ".f"  # with a loop's number: a `while` has just been entered again
PENDING = ".p"  # what a `finally` was entered with: an exception
INNER = ".function"  # not its own name: that one may mean something else to it
SELF = ".a"  # sorts before all others: super() without arguments looks at the first one
VALUE = ".v"  # what a frame is told to return


@dataclass
class Target:
    """Where and how a function goes on."""

    path: Path
    # None: the statement itself; or continue, return, header, after, case
    instead: Optional[str] = None
    case: int = 0  # of a `match`, at which it goes on


class Residual:
    """Builds the rest of a function's body."""

    def __init__(self, transform: Transform, target: Target, bound: Set[str]) -> None:
        self._transform = transform
        self._target = target
        self._path = target.path
        self._bound = bound  # the names that have a value, hidden ones included

    def stmts(self, depth: int = 0) -> List[ast.stmt]:
        """What remains of the block at that depth of the path."""
        step = self._path[depth]
        rest = self._transform.block(step.block[step.at + 1 :])
        if depth + 1 < len(self._path):
            return [*self._inside(step.statement, depth), *rest]
        instead = self._target.instead
        if instead == "continue":
            return [ast.Continue()]
        if instead == "return":
            return [ast.Return(self._transform.slot(VALUE))]
        if instead == "after":
            return rest or [ast.Pass()]
        if instead == "case":
            matched: Any = step.statement
            return [*self._transform.match_from(matched, self._target.case), *rest]
        if instead == "header":
            return [*self._header(step.statement), *rest]
        return [*self._transform.statement(step.statement), *rest]

    def _header(self, node: ast.stmt) -> List[ast.stmt]:
        """A loop whose iterator is live takes its next item."""
        if isinstance(node, ast.While):
            return self._transform.statement(node)
        return self._transform.loop(node)

    def _inside(self, node: Any, depth: int) -> List[ast.stmt]:
        below = self._path[depth + 1]
        if isinstance(node, LOOPS) and below.name == "body":
            before = self._transform.enter(node)
            rest = self.stmts(depth + 1)
            self._transform.leave_to(before)
            if isinstance(node, ast.While):
                return self._while(node, rest)
            return self._for(node, rest)
        if isinstance(node, WITHS):
            return self._with(node, depth)
        if isinstance(node, ast.Try):
            return self._try(node, depth)
        return self.stmts(depth + 1)

    def _for(self, node: Any, rest: List[ast.stmt]) -> List[ast.stmt]:
        slot = f".i{number_of(node)}"
        if slot not in self._bound:
            return rest
        make = self._transform
        item = make.slot(f"{TOKEN}{number_of(node)}")
        target = make.slot(f"{TOKEN}{number_of(node)}", True)
        chain = "chain" if isinstance(node, ast.For) else "chain_async"
        first = ast.If(
            ast.Compare(item, [ast.Is()], [runtime("token")]),
            [*rest, ast.Continue()],
            [],
        )
        body = [first, assign(node.target, item), *make.loop_body(node)]
        source = call(chain, make.slot(slot))
        made = _with_block(
            node, target=target, iter=source, body=body, orelse=make.block(node.orelse)
        )
        return [made, assign(make.slot(slot, True), ast.Constant(None))]

    def _while(self, node: ast.While, rest: List[ast.stmt]) -> List[ast.stmt]:
        make = self._transform
        name = f"{FIRST}{number_of(node)}"
        first = ast.If(
            make.slot(name),
            [
                assign(make.slot(name, True), ast.Constant(False)),
                *rest,
                ast.Continue(),
            ],
            [],
        )
        test = ast.BoolOp(ast.Or(), [make.slot(name), node.test])
        made = _with_block(
            node,
            test=test,
            body=[first, assign(make.slot(name, True), ast.Constant(None)), *make.loop_body(node)],
            orelse=make.block(node.orelse),
        )
        return [assign(make.slot(name, True), ast.Constant(True)), made]

    def _with(self, node: Any, depth: int) -> List[ast.stmt]:
        make = self._transform
        slot = f".w{number_of(node)}"
        if slot not in self._bound:
            # A block that an edit has put around the statement is entered now.
            item = node.items[0]
            body = self.stmts(depth + 1)
            hold = "hold" if isinstance(node, ast.With) else "hold_async"
            keep = assign(make.slot(slot, True), call(hold, item.context_expr))
            return [keep, *make.with_body(node, item.optional_vars, body)]
        again = assign(make.slot(slot, True), call("enter_again", make.slot(slot)))
        return [again, *make.with_body(node, None, self.stmts(depth + 1))]

    def _try(self, node: ast.Try, depth: int) -> List[ast.stmt]:
        below = self._path[depth + 1]
        make = self._transform
        if below.owner is node and below.name == "finalbody":
            return self._final(node, depth)
        before = make.enter(node)
        rest = self.stmts(depth + 1)
        handlers: List[ast.ExceptHandler] = []
        orelse: List[ast.stmt] = []
        if below.owner is node and below.name == "body":
            handlers = [make.handler(one, node) for one in node.handlers]
            orelse = make.block(node.orelse)
        elif isinstance(below.owner, ast.ExceptHandler):
            rest = self._handling(below.owner, rest)
        make.leave_to(before)
        return make.try_of(node, rest, handlers, orelse)

    def _handling(self, handler: ast.ExceptHandler, rest: List[ast.stmt]) -> List[ast.stmt]:
        """`rest` of a handler's body, with the exception that it handles handled again."""
        make = self._transform
        name = f"{HANDLED}{number_of(handler)}"
        if name not in self._bound:
            return rest
        guarded: List[ast.stmt] = [
            ast.Expr(call("restored")),
            ast.Try(rest, make.barrier(handler), [], []),
        ]
        clause = ast.ExceptHandler(runtime("any"), handler.name, guarded)
        raised = ast.Raise(call("again", make.slot(name)))
        return [ast.Try([raised], [clause], [], [])]

    def _final(self, node: ast.Try, depth: int) -> List[ast.stmt]:
        """The rest of a `finally`, then what it was entered with goes on."""
        rest = self.stmts(depth + 1)
        make = self._transform
        pending = f"{PENDING}{number_of(node)}"
        if pending in self._bound:
            return [*rest, ast.Raise(call("again", make.slot(pending)))]
        noted = f"{JUMP}{number_of(node)}"
        if noted not in self._bound:
            return rest
        jumps: Dict[str, ast.stmt] = {"Return": ast.Return(make.slot(RESULT))}
        if any(isinstance(step.statement, LOOPS) for step in self._path[:depth]):
            jumps.update(Break=ast.Break(), Continue=ast.Continue())
        for name, jump in jumps.items():
            test = ast.Compare(make.slot(noted), [ast.Eq()], [ast.Constant(name)])
            rest = [*rest, ast.If(test, make.statement(jump), [])]
        return rest


# ---------------------------------------------------------------------- whole continuations

_compiled: Dict[Any, types.CodeType] = {}
MAX_COMPILED = 256


def code_of(
    runtime: runtime_of.Runtime,
    function: Function,
    target: Target,
    bound: List[str],
    cells: List[str],
) -> types.CodeType:
    """The code of a continuation; kept, since the same repair often comes more than once."""
    steps = tuple((step.name, step.at) for step in target.path)
    shape = (tuple(bound), tuple(sorted(cells)))
    key = (runtime, function.key, steps, target.instead, target.case, *shape)
    code = _compiled.get(key)
    if code is None:
        if len(_compiled) >= MAX_COMPILED:
            _compiled.clear()
        code = _compiled[key] = _build(runtime, function, target, bound, sorted(cells))
    return code


def of_function(
    runtime: runtime_of.Runtime,
    function: Function,
    target: Target,
    values: Dict[str, Any],
    cells: Dict[str, types.CellType],
    scope: Dict[str, Any],
) -> Callable[[], Any]:
    """A function without arguments that completes `function` from `target` on.

    Args:
        runtime: of the version of the file to which `function` and `target` belong.
        values: the locals that have a value, hidden ones included.
        cells: the cells of the names that it shares with other functions.
        scope: the globals of the frame that it continues.
    """
    if "__class__" in cells and function.code.co_argcount:
        values[SELF] = _first_argument(function, values, cells)
    bound = sorted(name for name in values if name not in cells)
    code = code_of(runtime, function, target, bound, list(cells))
    closure = tuple(cells[name] for name in code.co_freevars)
    made = types.FunctionType(code, scope, INNER, None, closure or None)
    arguments = [values[name] for name in bound]
    values.clear()  # the new frame is to be their only owner

    def go_on() -> Any:
        taken = tuple(arguments)
        arguments.clear()
        return made(*taken)

    return go_on


def _first_argument(
    function: Function, values: Dict[str, Any], cells: Dict[str, types.CellType]
) -> Any:
    name = function.code.co_varnames[0]
    try:
        return cells[name].cell_contents if name in cells else values.get(name)
    except ValueError:
        return None


def _build(
    runtime: runtime_of.Runtime,
    function: Function,
    target: Target,
    bound: List[str],
    cells: List[str],
) -> types.CodeType:
    source = runtime.source
    transform = Transform(source)
    transform.continue_function(function)
    body = Residual(transform, target, {*bound, *cells}).stmts()
    body = _declared(function, transform.wrap(body, _hand_over(function)), bound, cells)
    node: Any = function.node
    kind = ast.AsyncFunctionDef if isinstance(node, ast.AsyncFunctionDef) else ast.FunctionDef
    made = ast.copy_location(
        kind(name=INNER, args=_arguments(bound), body=body, decorator_list=[]), node
    )
    factory = ast.FunctionDef(
        name=".factory", args=_arguments(cells), body=[made], decorator_list=[]
    )
    outermost: Any = factory
    if function.class_name:
        # For the names that are private to the class.
        outermost = ast.ClassDef(function.class_name, [], [], [factory], [])
    new: Any
    for new in (made, factory, outermost):
        new.type_params = []
    tree = ast.Module([outermost], [])
    code = _inner(compiled(without_lines(tree), source.file, source.code.co_flags), ".factory")
    code = runtime_of.place(_inner(code, INNER), runtime)
    return code.replace(co_name=function.name, co_qualname=function.qualname)


def _hand_over(function: Function) -> List[ast.stmt]:
    """How a continuation that crashes gives the next one to whoever runs it."""
    if function.kind == "async_generator":
        return drive_async_generator(load(CONTINUATION), function.node)
    return [ast.Return(load(CONTINUATION))]


def _declared(
    function: Function, body: List[ast.stmt], bound: List[str], cells: List[str]
) -> List[ast.stmt]:
    """Makes every name of the body what it was in the whole function: local, shared or global."""
    outer: Set[str] = set()
    for one in own_statements(function.body):
        if isinstance(one, ast.Global):
            outer.update(one.names)
    head: List[ast.stmt] = []
    if outer:
        head.append(ast.Global(sorted(outer)))
    shared = sorted(name for name in cells if name != "__class__")
    if shared:
        head.append(ast.Nonlocal(shared))
    local = {*function.code.co_varnames, *function.code.co_cellvars}
    unbound = sorted(local - set(bound) - set(cells) - outer)
    never: List[ast.stmt] = []
    if unbound:
        # Behind the last return: never runs, but makes the names local.
        never.append(ast.Assign([ast.Name(n, ast.Store()) for n in unbound], ast.Constant(None)))
    if function.kind in ("generator", "async_generator"):
        never.append(ast.Expr(ast.Yield(None)))
    return [*head, *body, *(never and [ast.Return(None), *never])]


def _arguments(names: List[str]) -> ast.arguments:
    return ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])


def _inner(code: types.CodeType, name: str) -> types.CodeType:
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            if const.co_name == name:
                return const
            if name == ".factory":
                return _inner(const, name)
    raise LookupError(name)


def code_of_module(runtime: runtime_of.Runtime, target: Target, bound: Set[str]) -> types.CodeType:
    """The code that completes the body of a module from `target` on."""
    source = runtime.source
    transform = Transform(source)
    transform.continue_function(source.functions[0])
    stmts = Residual(transform, target, bound).stmts()
    code = compiled(transform.continued_module(stmts), source.file, source.code.co_flags)
    return runtime_of.place(code, runtime)


def of_module(
    runtime: runtime_of.Runtime, target: Target, bound: Set[str], scope: Dict[str, Any]
) -> Callable[[], Any]:
    """A function without arguments that runs it."""
    code = code_of_module(runtime, target, bound)

    def go_on() -> Any:
        exec(code, scope)

    return go_on
