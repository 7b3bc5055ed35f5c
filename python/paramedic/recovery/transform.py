"""Adds to a file's code what lets a crashed function be continued; see design 0008.

Every function and module body stands in one `try` that costs nothing until an exception passes.
Loops keep their iterator in a hidden local, `with` blocks their manager. No statement is slower.
What is added has no line number, so that tracebacks, coverage and debuggers see the file as it is.
Hidden names begin with a dot, which no name of a program does.
"""

from __future__ import annotations

import ast
import sys
import types
from typing import Any, List, Optional, Set, Union

from paramedic.recovery.source import (
    _TRY_STAR,
    FUNCTIONS,
    LOOPS,
    RUNTIME,
    WITHS,
    Function,
    Source,
    binds,
    children_of,
    future_flags,
    has_guard,
    is_whole,
    number_of,
    own_nodes,
    own_statements,
)
from paramedic.recovery.training import loop_id, steppers, trains

CONTINUATION = ".k"  # the Leave that ends this frame, None while it lives
RESULT = ".r"  # what a `return` inside try/finally is about to return
JUMP = ".j"  # with a try's number: which jump has entered its `finally`
SUBJECT = ".m"  # with the number of a `match` that has guards: what is matched, until it is
TOKEN = ".t"  # with a loop's number: the item of a loop that was entered again


def load(name: str) -> ast.expr:
    """Reads a local."""
    return ast.Name(name, ast.Load())


def assign(target: ast.expr, value: ast.expr) -> ast.stmt:
    """`target = value`"""
    return ast.Assign([target], value)


def runtime(name: str) -> ast.expr:
    """An attribute of the runtime object, which lies among the code's constants."""
    return ast.Attribute(ast.Constant(RUNTIME), name, ast.Load())


def call(name: str, *arguments: ast.expr) -> ast.expr:
    """Calls a method of the runtime."""
    return ast.Call(runtime(name), list(arguments), [])


def is_none(value: ast.expr) -> ast.expr:
    """`value is None`"""
    return ast.Compare(value, [ast.Is()], [ast.Constant(None)])


class Transform:
    """Makes the statements that run from the statements as written; never changes those."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._own_iter = _has_own_iter(source)
        self._steppers = steppers(source)
        self._function: Function = source.functions[0]
        # The try/finally statements around the current one, and the loops between them.
        self._around: List[Any] = []
        self.redeclares = False  # `global` and `nonlocal` stand at the head of a continuation

    # ------------------------------------------------------------------ whole files and functions

    def module(self, main: bool) -> ast.Module:
        """The whole file; `main`: it runs as the script."""
        self._function = self.source.functions[0]
        stmts = self.source.tree.body
        first = _prologue(stmts)
        body = [
            *stmts[:first],
            *([ast.Expr(call("begin"))] if main else []),
            ast.Try(self.block(stmts[first:]) or [ast.Pass()], self.barrier(), [], []),
            ast.Expr(call("run_module")),
        ]
        return without_lines(ast.Module(body, []))

    def continued_module(self, stmts: List[ast.stmt]) -> ast.Module:
        """What remains of the file's body, in the form of a body."""
        self._function = self.source.functions[0]
        return without_lines(ast.Module([ast.Try(stmts, self.barrier(), [], [])], []))

    def function_body(self, function: Function) -> List[ast.stmt]:
        """The body of `function` as it runs."""
        before, self._function = self._function, function
        kept = self._around, self.redeclares
        self._around, self.redeclares = [], False
        stmts = function.body
        first = 1 if _is_docstring(stmts[0]) else 0
        body = self.block(stmts[first:])
        if body:
            made = [*stmts[:first], *self.wrap(body, self.leave())]
        else:
            made = list(stmts)
        self._function = before
        self._around, self.redeclares = kept
        return made

    def wrap(self, body: List[ast.stmt], leave: List[ast.stmt]) -> List[ast.stmt]:
        """The one `try` around a function; `leave` is what happens once it is continued."""
        body = [*body, ast.Return(None)]
        stmts: List[ast.stmt] = [ast.Try(body, self.barrier(), [], []), *leave]
        if any(
            isinstance(node, ast.Try) and node.finalbody
            for node in own_statements(self._function.body)
        ):
            stmts.insert(0, assign(self.slot(CONTINUATION, True), ast.Constant(None)))
        return stmts

    def leave(self) -> List[ast.stmt]:
        """The end of a frame whose continuation goes on in its place."""
        continuation = load(CONTINUATION)
        kind = self._function.kind
        given_up = self._given_up()
        if kind == "generator":
            return [*given_up, ast.Return(ast.YieldFrom(call("run_generator", continuation)))]
        if kind == "coroutine":
            return [*given_up, ast.Return(ast.Await(call("run_coroutine", continuation)))]
        if kind == "async_generator":
            return [*given_up, *drive_async_generator(continuation, self._function.node)]
        return [*given_up, ast.Return(call("run", continuation))]

    def _given_up(self) -> List[ast.stmt]:
        """The continuation owns the locals now: a tensor must not stay alive in two frames."""
        code = self._function.code
        names = [name for name in code.co_varnames if name not in code.co_cellvars]
        # Variables of comprehensions are no names of this frame.
        bound = self._bound_names()
        names = [name for name in names if name.isidentifier() and name in bound]
        if not names:
            return []
        return [ast.Assign([ast.Name(one, ast.Store()) for one in names], ast.Constant(None))]

    def _bound_names(self) -> Set[str]:
        node: Any = self._function.node
        found = {one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)}
        for one in own_nodes(self._function.body):
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
                found.add(one.id)
        return found

    def continue_function(self, function: Function) -> None:
        """The following statements are of a continuation of `function`."""
        self._function = function
        self._around = []
        self.redeclares = True

    # ------------------------------------------------------------------ hidden locals and barriers

    def slot(self, name: str, store: bool = False) -> ast.expr:
        """A hidden local; a module's lie in the runtime, so that nobody meets them in globals()."""
        context = ast.Store() if store else ast.Load()
        if self._function.kind == "module":
            return ast.Attribute(runtime("slots"), name, context)
        return ast.Name(name, context)

    def barrier(self, around: Any = None) -> List[ast.ExceptHandler]:
        """The clauses that ask whether an exception is to be held.

        Args:
            around: the statement in or around which it stands; None: the whole function.
        """
        region = 0 if around is None else number_of(around)
        function = self._function
        cells: ast.expr = ast.Constant(None)
        names = [*function.cells]
        if names and function.kind != "module":
            # The closure of this lambda holds the cells themselves; it is never called.
            nothing = ast.arguments([], [], None, [], [], None, [])
            cells = ast.Lambda(nothing, ast.Tuple([load(name) for name in names], ast.Load()))
            ast.copy_location(cells, function.node)  # code has to begin at some line
        crash = call("crash", ast.Constant(function.key), ast.Constant(region), cells)
        then: List[ast.stmt] = [assign(self.slot(CONTINUATION, True), crash)]
        passes: List[ast.stmt] = [
            *self._dropped(function if around is None else around),
            ast.Raise(),
        ]
        if region:
            on: List[ast.stmt] = [ast.Raise(self.slot(CONTINUATION))]
            then.append(ast.If(is_none(self.slot(CONTINUATION)), passes, on))
        else:
            then.append(ast.If(is_none(self.slot(CONTINUATION)), passes, []))
        clauses = [ast.ExceptHandler(runtime("any"), None, then)]
        if function.kind != "module":
            clauses.insert(0, ast.ExceptHandler(runtime("never"), None, passes))
        return clauses

    def _dropped(self, left: Any) -> List[ast.stmt]:
        """Frees what loops and guards held that an exception has left, as the interpreter would."""
        names = [
            f"{SUBJECT if isinstance(node, ast.Match) else '.i'}{number_of(node)}"
            for node in own_statements(left.body)
            if isinstance(node, (ast.For, ast.AsyncFor)) or has_guard(node)
        ]
        if not names:
            return []
        targets = [self.slot(name, True) for name in names]
        return [ast.Assign(targets, ast.Constant(None))]

    # ------------------------------------------------------------------ statements

    def block(self, stmts: List[ast.stmt]) -> List[ast.stmt]:
        """The statements of one block as they run."""
        return [made for one in stmts for made in self.statement(one)]

    def statement(self, node: ast.stmt) -> List[ast.stmt]:
        """One statement as it runs."""
        if isinstance(node, FUNCTIONS):
            return [self._definition(node)]
        if isinstance(node, ast.ClassDef):
            return [_with_block(node, body=self._only_definitions(node.body))]
        if isinstance(node, (ast.For, ast.AsyncFor)):
            return self._fresh_loop(node)
        if isinstance(node, ast.While):
            body = self.loop_body(node)
            made = _with_block(node, body=body, orelse=self.block(node.orelse))
            return [*self._entered(node), made]
        if isinstance(node, ast.If):
            return [_with_block(node, body=self.block(node.body), orelse=self.block(node.orelse))]
        if isinstance(node, WITHS):
            return self._fresh_with(node)
        if isinstance(node, ast.Try):
            return self._try(node)
        if isinstance(node, ast.Match):
            if not has_guard(node):
                return [self._match(node, node.subject, node.cases)]
            keep = assign(self.slot(f"{SUBJECT}{number_of(node)}", True), node.subject)
            return [ast.copy_location(keep, node.subject), *self.match_from(node, 0)]
        if isinstance(node, (ast.Return, ast.Break, ast.Continue)):
            return self._jump(node)
        if self.redeclares and isinstance(node, (ast.Global, ast.Nonlocal)):
            return [ast.copy_location(ast.Pass(), node)]
        if isinstance(node, _TRY_STAR):
            return self._only_definitions([node])
        return [node]

    def match_from(self, node: ast.Match, first: int) -> List[ast.stmt]:
        """A `match` from one of its cases on, of the subject that its hidden local holds.

        A guard that fails can so be asked again, without what came before it. In the branches
        nobody holds the subject any more, as in the interpreter.
        """
        slot = f"{SUBJECT}{number_of(node)}"
        let_go = assign(self.slot(slot, True), ast.Constant(None))
        made = self._match(node, self.slot(slot), node.cases[first:], let_go)
        return [made, assign(self.slot(slot, True), ast.Constant(None))]

    def _match(
        self, node: ast.Match, subject: ast.expr, cases: List[ast.match_case], *first: ast.stmt
    ) -> ast.stmt:
        bodies = [[*first, *self.block(one.body)] for one in cases]
        made: ast.stmt = _with_block(
            node,
            subject=ast.copy_location(subject, node.subject),
            cases=[
                ast.match_case(one.pattern, one.guard, body) for one, body in zip(cases, bodies)
            ],
        )
        return made

    def _jump(self, node: Any) -> List[ast.stmt]:
        """Inside try/finally a jump is noted, so that a crash in the `finally` can end with it."""
        targets: List[ast.expr] = []
        for one in reversed(self._around):
            if isinstance(one, ast.Try):
                targets.append(self.slot(f"{JUMP}{number_of(one)}", True))
            elif not isinstance(node, ast.Return):
                break
        if not targets:
            return [node]
        note: ast.stmt = ast.Assign(targets, ast.Constant(type(node).__name__))
        if not isinstance(node, ast.Return):
            return [note, node]
        value = node.value or ast.Constant(None)
        kept = ast.copy_location(assign(self.slot(RESULT, True), value), node)
        return [kept, note, ast.copy_location(ast.Return(self.slot(RESULT)), node)]

    def _definition(self, node: Any) -> ast.stmt:
        function: Optional[Function] = getattr(node, "function", None)
        if function is None or function.left_alone:
            return node  # type: ignore[no-any-return]
        # The innermost decorator tells the runtime of every function that comes to be.
        told = runtime("made")
        ast.copy_location(told, node)
        ast.copy_location(told.value, node)  # type: ignore[attr-defined]
        decorators = [*node.decorator_list, told]
        made: ast.stmt = _with_block(
            node, body=self.function_body(function), decorator_list=decorators
        )
        return made

    def _only_definitions(self, stmts: List[ast.stmt]) -> List[ast.stmt]:
        """A class body, or a statement that runs as a whole: only functions in it are changed."""
        made: List[ast.stmt] = []
        for node in stmts:
            if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                made += self.statement(node)
            elif any(isinstance(one, (*FUNCTIONS, ast.ClassDef)) for one in own_statements([node])):
                made.append(_Inside(self).visit(node))
            else:
                made.append(node)
        return made

    # ------------------------------------------------------------------ loops

    def _fresh_loop(self, node: Union[ast.For, ast.AsyncFor]) -> List[ast.stmt]:
        name = "iter" if isinstance(node, ast.For) else "aiter"
        function = runtime(name) if self._own_iter else load(name)
        made = ast.Call(function, [node.iter], [])
        # An object that cannot be iterated over is told at the place where the interpreter does.
        where = node.iter if sys.version_info >= (3, 13) else node
        for new in (function, made):
            ast.copy_location(new, where)
        keep = assign(self.slot(f".i{number_of(node)}", True), made)
        ast.copy_location(keep, node.iter)
        return [keep, *self._entered(node), *self.loop(node)]

    def loop(self, node: Any) -> List[ast.stmt]:
        """A `for` loop over the iterator that its hidden local holds."""
        slot = f".i{number_of(node)}"
        source = ast.copy_location(self.slot(slot), node.iter)
        made = _with_block(
            node, iter=source, body=self.loop_body(node), orelse=self.block(node.orelse)
        )
        return [made, assign(self.slot(slot, True), ast.Constant(None))]

    def loop_body(self, node: Any) -> List[ast.stmt]:
        """The body of a loop, with the mark of an iteration where it trains."""
        before = self.enter(node)
        body = self.block(node.body)
        self.leave_to(before)
        if self.trains(node):
            body.insert(0, ast.Expr(call("iteration_started", ast.Constant(self.loop_id(node)))))
        return body

    def _entered(self, node: Any) -> List[ast.stmt]:
        if not self.trains(node):
            return []
        return [ast.Expr(call("loop_entered", ast.Constant(self.loop_id(node))))]

    def loop_id(self, node: Any) -> int:
        """The number by which the marks of a loop are known, the same in every run."""
        return loop_id(self.source.file, self._function.key, number_of(node))

    def trains(self, node: Any) -> bool:
        """Whether an iteration of the loop is a training step."""
        found: Optional[bool] = node.__dict__.get("trains")
        if found is None:
            found = node.__dict__["trains"] = trains(node.body, self._steppers)
        return found

    # ------------------------------------------------------------------ with and try

    def _fresh_with(self, node: Any) -> List[ast.stmt]:
        item = node.items[0]
        hold = "hold" if isinstance(node, ast.With) else "hold_async"
        held = ast.Call(runtime(hold), [item.context_expr], [])
        for new in (held, held.func):
            ast.copy_location(new, item.context_expr)
        keep = assign(self.slot(f".w{number_of(node)}", True), held)
        ast.copy_location(keep, item.context_expr)
        return [keep, *self.with_body(node, item.optional_vars, self.block(node.body))]

    def with_body(
        self, node: Any, target: Optional[ast.expr], body: List[ast.stmt]
    ) -> List[ast.stmt]:
        """A `with` over the manager that its hidden local holds, around statements made already."""
        slot = f".w{number_of(node)}"
        manager = ast.copy_location(self.slot(slot), node.items[0].context_expr)
        guarded: List[ast.stmt] = [ast.Try(body, self.barrier(node), [], [])]
        made = _with_block(node, items=[ast.withitem(manager, target)], body=guarded)
        return [made, assign(self.slot(slot, True), ast.Constant(None))]

    def _try(self, node: ast.Try) -> List[ast.stmt]:
        before = self.enter(node)
        body = self.block(node.body)
        handlers = [self.handler(one, node) for one in node.handlers]
        orelse = self.block(node.orelse)
        self.leave_to(before)
        made = self.try_of(node, body, handlers, orelse)
        jumps = (ast.Return, ast.Break, ast.Continue)
        if node.finalbody and any(isinstance(one, jumps) for one in own_statements([node])):
            name = f"{JUMP}{number_of(node)}"
            made.insert(0, assign(self.slot(name, True), ast.Constant(None)))
        return made

    def enter(self, node: Any) -> Any:
        """The following statements are of a loop's body, or of what the `finally` of a try guards.

        Returns:
            What `leave_to` needs.
        """
        before = self._around
        if isinstance(node, LOOPS) or node.finalbody:
            self._around = [*before, node]
        return before

    def leave_to(self, before: Any) -> None:
        """They end."""
        self._around = before

    def handler(self, node: ast.ExceptHandler, of: ast.Try) -> ast.ExceptHandler:
        """An `except` clause; while it runs, the exception it handles can still be read."""
        body = self.block(node.body)
        if not all(isinstance(one, (ast.Pass, ast.Continue, ast.Break)) for one in node.body):
            body = [ast.Try(body, self.barrier(node), [], [])]
        made = ast.ExceptHandler(node.type, node.name, [*self._dropped(of), *body])
        return ast.copy_location(made, node)

    def try_of(
        self,
        node: ast.Try,
        body: List[ast.stmt],
        handlers: List[ast.ExceptHandler],
        orelse: List[ast.stmt],
    ) -> List[ast.stmt]:
        """The `try` statement `node` with parts that are made already."""
        if handlers:
            if _has_barrier([*body, *orelse]):
                on = ast.ExceptHandler(runtime("leave"), None, [ast.Raise()])
                handlers = [on, *handlers]
            user: List[ast.stmt] = [
                _with_block(node, body=body, handlers=handlers, orelse=orelse, finalbody=[])
            ]
        else:
            user = body
        if not node.finalbody:
            return user
        last = ast.If(is_none(self.slot(CONTINUATION)), self.block(node.finalbody), [])
        whole = ast.Try(user, self.barrier(node), [], [last])
        return [ast.copy_location(whole, node)]


class _Inside(ast.NodeTransformer):
    """Changes the functions inside a statement that is otherwise left as it is."""

    def __init__(self, transform: Transform) -> None:
        self._transform = transform

    def visit(self, node: Any) -> Any:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            return self._transform.statement(node)[0]
        if isinstance(node, ast.Lambda) or not any(True for _ in ast.iter_child_nodes(node)):
            return node
        copied = _with_block(node)
        return self.generic_visit(copied)

    def generic_visit(self, node: Any) -> Any:
        for name, value in ast.iter_fields(node):
            if isinstance(value, list):
                setattr(node, name, [self._one(part) for part in value])
            elif isinstance(value, ast.AST):
                setattr(node, name, self.visit(value))
        return node

    def _one(self, part: Any) -> Any:
        return self.visit(part) if isinstance(part, ast.AST) else part


_ASYNC_GENERATOR = """
async def template():
    h_g = h_start
    try:
        h_v = await h_g.asend(None)
        while True:
            try:
                h_s = yield h_v
            except BaseException as h_x:
                h_v = await h_g.athrow(h_x)
            else:
                h_v = await h_g.asend(h_s)
    except StopAsyncIteration:
        pass
"""


def drive_async_generator(continuation: ast.expr, function: ast.AST) -> List[ast.stmt]:
    """`yield from` for an async generator, which the language does not have.

    It has the line of `function`: 3.13 does not compile this without one.
    """
    body: List[ast.stmt] = ast.parse(_ASYNC_GENERATOR).body[0].body  # type: ignore[attr-defined]
    for node in ast.walk(ast.Module(body, [])):
        if isinstance(node, ast.Name) and node.id.startswith("h_"):
            node.id = "." + node.id[2:]
        elif isinstance(node, ast.ExceptHandler) and node.name:
            node.name = ".x"
        ast.copy_location(node, function)
    start = call("run_async_generator", continuation)
    body[0].value = ast.copy_location(start, function)  # type: ignore[attr-defined]
    return body


def _with_block(node: Any, **parts: Any) -> Any:
    """A copy of `node` with other parts."""
    made = type(node)(**{**dict(ast.iter_fields(node)), **parts})
    return ast.copy_location(made, node)


def _is_docstring(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _has_barrier(stmts: List[ast.stmt]) -> bool:
    """Whether a `Leave` may come out of these statements."""
    for node in own_statements(stmts):
        caught = node.type if isinstance(node, ast.ExceptHandler) else None
        if isinstance(caught, ast.Attribute) and isinstance(caught.value, ast.Constant):
            return True
    return False


def _has_own_iter(source: Source) -> bool:
    """Whether `iter` or `aiter` may mean something else in this file than in builtins."""
    found: Optional[bool] = source.facts.get("own_iter")
    if found is None:
        mentions = b"iter" in source.text or b"import *" in source.text
        found = mentions and binds(source.tree, ("iter", "aiter"))
        source.facts["own_iter"] = found
    return found


def without_lines(tree: ast.Module) -> ast.Module:
    """Tells the compiler of every node that is not of the file that it has no line."""
    stack: List[Any] = [tree]
    while stack:
        node = stack.pop()
        if is_whole(node):
            continue
        if isinstance(node, _LOCATED) and getattr(node, "lineno", None) is None:
            node.lineno = node.end_lineno = node.col_offset = node.end_col_offset = -1
        stack.extend(children_of(node))
    return tree


_LOCATED = (ast.stmt, ast.expr, ast.excepthandler, ast.keyword, ast.alias, ast.arg, ast.pattern)


def compiled(tree: ast.Module, file: str, of_flags: int) -> types.CodeType:
    """Compiles a transformed tree with the `__future__` features of code with these flags.

    Warnings about the file were told when it was parsed.
    """
    import warnings

    flags = future_flags(of_flags)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code: types.CodeType = compile(tree, file, "exec", flags, dont_inherit=True)
        return code


def only_shown_right(data: bytes, file: str) -> ast.Module:
    """A script without barriers, except that an exception that ends it is shown as ever."""
    tree = ast.parse(data, file)
    first = _prologue(tree.body)
    ends: List[ast.stmt] = [ast.Expr(call("script_ends")), ast.Raise()]
    body = ast.Try(
        tree.body[first:] or [ast.Pass()], [ast.ExceptHandler(runtime("any"), None, ends)], [], []
    )
    return without_lines(ast.Module([*tree.body[:first], ast.Expr(call("begin")), body], []))


def _prologue(stmts: List[ast.stmt]) -> int:
    """How many statements have to stand first: the docstring, `from __future__` imports."""
    first = 1 if stmts and _is_docstring(stmts[0]) else 0
    while first < len(stmts):
        one = stmts[first]
        if not isinstance(one, ast.ImportFrom) or one.module != "__future__":
            break
        first += 1
    return first
