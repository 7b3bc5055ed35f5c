"""A project file's source as recovery sees it: its tree, its functions, positions in it.

A `Source` is one version of one file; an edit makes the next version. Positions are (line, column)
with the column in bytes of UTF-8, as `ast` and `code.co_positions()` have them.
"""

from __future__ import annotations

import ast
import types
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple, Union

Position = Tuple[int, int]
FunctionNode = Union[ast.FunctionDef, ast.AsyncFunctionDef]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
WITHS = (ast.With, ast.AsyncWith)
LAMBDA = "<lambda>"
RUNTIME = "\0paramedic"  # the constant whose place the runtime takes in compiled code


@dataclass
class Function:
    """What is known of a function, or of a module's body, before it runs."""

    key: int  # index in Source.functions
    node: Union[FunctionNode, ast.Module]  # of a lambda: the function that would do the same
    name: str
    qualname: str
    class_name: str  # of the class whose private names it uses, or ""
    kind: str  # module function generator coroutine async_generator
    code: types.CodeType  # as the compiler made it from the untouched source
    left_alone: bool = False  # compiled by somebody else, who must see the code as written
    outer: Optional[Function] = None  # in which it is defined

    @property
    def body(self) -> List[ast.stmt]:
        """Its statements."""
        return self.node.body

    @property
    def cells(self) -> List[str]:
        """The names that it shares with other functions."""
        return sorted({*self.code.co_cellvars, *self.code.co_freevars})


class Step(NamedTuple):
    """One step of the way from a function to a statement inside it."""

    block: List[ast.stmt]
    at: int
    owner: Optional[ast.AST]  # whose block it is: a statement, a handler, a case; None at the top
    name: str  # body, orelse, finalbody

    @property
    def statement(self) -> ast.stmt:
        """The statement at which the step ends."""
        return self.block[self.at]


Path = List[Step]


@dataclass
class Source:
    """One version of a file."""

    file: str  # as in co_filename
    text: bytes
    tree: ast.Module
    code: types.CodeType  # compiled from the untouched tree; holds that of the functions
    functions: List[Function] = field(default_factory=list)
    facts: Dict[str, Any] = field(default_factory=dict)  # what others keep about this version

    @property
    def lines(self) -> List[bytes]:
        """The lines of the file, without their ends."""
        lines: Optional[List[bytes]] = self.facts.get("lines")
        if lines is None:
            lines = self.facts["lines"] = self.text.splitlines()
        return lines

    def text_of(self, node: Any) -> bytes:
        """The whole lines on which a statement stands."""
        return b"\n".join(self.lines[begin_of(node)[0] - 1 : node.end_lineno])

    def find(self, qualname: str, line: int = 0) -> Optional[Function]:
        """The function of that name; of several, the one whose first line is `line`."""
        found = [one for one in self.functions if one.qualname == qualname]
        for one in found:
            # A continuation has no decorators, and so begins at its `def`.
            if line in (one.code.co_firstlineno, getattr(one.node, "lineno", 0)):
                return one
        return found[-1] if found else None

    def of_code(self, code: types.CodeType) -> Optional[Function]:
        """The function from which `code` was made."""
        if code.co_name == LAMBDA:
            return _of_lambda(self.functions, code)
        return self.find(code.co_qualname, code.co_firstlineno)


def parse(file: str, text: bytes) -> Source:
    """Reads a source file; raises what the compiler raises on it."""
    code = compile(text, file, "exec", dont_inherit=True)
    return of_tree(file, text, ast.parse(text, file), code)


def of_tree(file: str, text: bytes, tree: ast.Module, code: types.CodeType) -> Source:
    """A file that is parsed and compiled already; `tree` is taken over."""
    if _needs_normal_form(tree, text):
        tree = _Normal().visit(tree)
    source = Source(file, text, tree, code)
    source.functions.append(Function(0, tree, "<module>", "<module>", "", "module", code))
    _Catalogue(source).block(tree.body, code, "")
    for function in source.functions:
        _number(function)
    return source


def future_flags(flags: int) -> int:
    """The `__future__` features among the flags of a code object, as the compiler takes them."""
    import __future__

    features = (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
    return sum({flags & feature for feature in features})


def _needs_normal_form(tree: ast.Module, text: bytes) -> bool:
    if any(name in text for name in (b"locals(", b"vars(", b"dir(")):
        return True
    todo: List[Any] = list(tree.body)
    while todo:
        node = todo.pop()
        if isinstance(node, WITHS) and len(node.items) > 1:
            return True
        for name in _BLOCKS:
            block = node.__dict__.get(name)
            if isinstance(block, list):
                todo.extend(block)
    return False


class _Normal(ast.NodeTransformer):
    """Brings the tree into the form that all of recovery works on.

    `with a, b:` becomes `with a: with b:`, which is what it means; calls that would show a frame's
    names go through the runtime, which takes the hidden ones out.
    """

    def _split(self, node: Any) -> Any:
        self.generic_visit(node)
        while len(node.items) > 1:
            last = node.items.pop()
            inner = type(node)(items=[last], body=node.body)
            ast.copy_location(inner, node)
            inner.begins = begin_of(last.context_expr)
            node.body = [inner]
        return node

    visit_With = visit_AsyncWith = _split

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        shows = isinstance(node.func, ast.Name) and node.func.id in ("locals", "vars", "dir")
        if not shows or node.args or node.keywords:
            return node
        visible = ast.Attribute(ast.Constant(RUNTIME), "visible", ast.Load())
        call = ast.Call(visible, [node], [])
        ast.copy_location(visible, node)
        ast.copy_location(visible.value, node)
        return ast.copy_location(call, node)


class _Catalogue:
    """Lists all functions of a file together with the code objects made from them."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._has_lambdas = b"lambda" in source.text

    def block(
        self,
        stmts: List[ast.stmt],
        code: types.CodeType,
        class_name: str,
        outer: Optional[Function] = None,
    ) -> None:
        node: Any
        for node in _definitions(stmts):
            inner = _code_of(node, code)
            if inner is None:
                continue
            if isinstance(node, ast.ClassDef):
                self.block(node.body, inner, node.name, outer)
            else:
                node.function = self._add(node, inner, class_name, outer)
        if self._has_lambdas:
            codes = [*_lambda_codes(code)]
            for node in _lambdas(stmts):
                found = [one for one in codes if _stands_in(one, node.body)]
                if len(found) == 1 and kind_of(found[0]) == "function":
                    self._add(_as_function(node), found[0], class_name, outer)

    def _add(
        self, node: Any, code: types.CodeType, class_name: str, outer: Optional[Function]
    ) -> Function:
        functions = self._source.functions
        made = Function(
            len(functions), node, node.name, code.co_qualname, class_name, kind_of(code), code
        )
        made.outer = outer
        functions.append(made)
        self.block(node.body, code, class_name, made)
        return made


def _lambdas(stmts: List[ast.stmt]) -> Iterator[ast.Lambda]:
    """The lambdas of a block, but not those inside functions, classes and one another."""
    stack: List[Any] = [*reversed(stmts)]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Lambda):
            yield node
        if isinstance(node, (*FUNCTIONS, ast.Lambda)):
            parts = [*getattr(node, "decorator_list", ()), *node.args.defaults]
            parts += [one for one in node.args.kw_defaults if one is not None]
        elif isinstance(node, ast.ClassDef):
            parts = [*node.decorator_list, *node.bases, *node.keywords]
        else:
            parts = children_of(node)
        stack.extend(parts[::-1])


def _as_function(node: ast.Lambda) -> ast.FunctionDef:
    """The function that does what a lambda does."""
    returned = ast.copy_location(ast.Return(node.body), node.body)
    made = ast.FunctionDef(name=LAMBDA, args=node.args, body=[returned], decorator_list=[])
    return ast.copy_location(made, node)


def _lambda_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Of the lambdas in a block; comprehensions have a code of their own before 3.12."""
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            if const.co_name == LAMBDA:
                yield const
            elif const.co_name in ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"):
                yield from _lambda_codes(const)


def _stands_in(code: types.CodeType, node: Any) -> bool:
    """Whether all instructions of a lambda's code come from the text of `node`."""
    first, last = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
    found = False
    for line, end_line, column, end_column in code.co_positions():
        if line is None or end_line is None or column is None or end_column is None:
            continue
        if (line, column) == (end_line, end_column):
            continue  # where the code begins
        if not first <= (line, column) <= (end_line, end_column) <= last:
            return False
        found = True
    return found


def _of_lambda(functions: List[Function], code: types.CodeType) -> Optional[Function]:
    """As transformed code it has the place of the whole lambda as well."""
    found = [
        one
        for one in functions
        if one.name == LAMBDA and one.qualname == code.co_qualname and _stands_in(code, one.node)
    ]
    # In another one's default value: the inner of the two.
    return max(found, key=lambda one: begin_of(one.node), default=None)


def _definitions(stmts: List[ast.stmt]) -> Iterator[Union[FunctionNode, ast.ClassDef]]:
    for node in own_statements(stmts):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node


def _code_of(node: Any, parent: types.CodeType) -> Optional[types.CodeType]:
    line = min([node.lineno, *(one.lineno for one in node.decorator_list)])
    for const in parent.co_consts:
        if not isinstance(const, types.CodeType):
            continue
        if const.co_name == node.name and const.co_firstlineno == line:
            return const
        if const.co_name.startswith("<generic parameters"):
            found = _code_of(node, const)
            if found is not None:
                return found
    return None


def kind_of(code: types.CodeType) -> str:
    """What a call of the code gives."""
    import inspect

    if code.co_flags & inspect.CO_ASYNC_GENERATOR:
        return "async_generator"
    if code.co_flags & inspect.CO_COROUTINE:
        return "coroutine"
    return "generator" if code.co_flags & inspect.CO_GENERATOR else "function"


def own_nodes(stmts: List[ast.stmt]) -> Iterator[ast.AST]:
    """All nodes of a block in the order of the text, but not those inside functions and classes."""
    stack: List[ast.AST] = [*reversed(stmts)]
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, SCOPES):
            stack.extend(children_of(node)[::-1])


_BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")


def own_statements(stmts: List[ast.stmt]) -> Iterator[Any]:
    """The statements among `own_nodes`, with handlers and cases: ten times as fast."""
    stack: List[Any] = [*reversed(stmts)]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, SCOPES):
            continue
        for name in reversed(_BLOCKS):
            block = node.__dict__.get(name)
            if isinstance(block, list):
                stack.extend(reversed(block))


def children_of(node: ast.AST) -> List[ast.AST]:
    """The nodes right below; several times as fast as `ast.iter_child_nodes`."""
    found: List[ast.AST] = []
    for value in node.__dict__.values():
        if isinstance(value, list):
            found += [one for one in value if isinstance(one, ast.AST)]
        elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
            found.append(value)
    return found


def _number(function: Function) -> None:
    """Gives every statement that keeps something in a hidden local its number."""
    number = 0
    for node in own_statements(function.body):
        if isinstance(node, (*LOOPS, *WITHS, ast.Try, ast.ExceptHandler, ast.Match)):
            number += 1
            node.__dict__["slot"] = number
        elif isinstance(node, _SIMPLE):
            node.__dict__["is_whole"] = True


# These statements hold no others, and are compiled as they stand in the file.
_SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Assert, ast.Delete, ast.Raise)


def binds(tree: ast.Module, names: Any) -> bool:
    """Whether the file gives one of these names a meaning of its own."""
    for node in ast.walk(tree):
        bound = None
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound = node.id
        elif isinstance(node, ast.arg):
            bound = node.arg
        elif isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            bound = node.name
        elif isinstance(node, ast.alias):
            bound = node.asname or node.name
        if bound in names or bound == "*":
            return True
    return False


def has_guard(node: ast.AST) -> bool:
    """Whether it is a `match` some `case` of which asks more than whether its pattern fits."""
    return isinstance(node, ast.Match) and any(one.guard for one in node.cases)


def is_whole(node: ast.AST) -> bool:
    """Whether a node and all that is in it are of the file."""
    return "is_whole" in node.__dict__


def number_of(node: ast.AST) -> int:
    """The number of a statement that keeps something in a hidden local, unique in its function."""
    return int(node.__dict__["slot"])


def begin_of(node: Any) -> Position:
    """Where a statement begins, decorators included."""
    begins: Optional[Position] = getattr(node, "begins", None)
    if begins is not None:
        return begins
    decorators = getattr(node, "decorator_list", None)
    if decorators:
        # The `@` stands before the expression; nothing else does on that line.
        return decorators[0].lineno, 0
    return node.lineno, node.col_offset


def own_text(source: Source, function: Function) -> bytes:
    """The lines of a function, without those of functions and classes inside it."""
    lines = source.lines
    node: Any = function.node
    first, last = begin_of(node)[0], node.end_lineno or node.lineno
    inner: Set[int] = set()
    for one in own_statements(node.body):
        if isinstance(one, (*FUNCTIONS, ast.ClassDef)):
            inner.update(range(begin_of(one)[0], (one.end_lineno or 0) + 1))
    kept = [lines[i - 1] for i in range(first, last + 1) if i not in inner]
    indent = min((len(one) - len(one.lstrip()) for one in kept if one.strip()), default=0)
    return b"\n".join(one[indent:].rstrip() for one in kept if one.strip())


def contains(node: Any, position: Position) -> bool:
    """Whether `position` lies in the text of `node`."""
    return begin_of(node) <= position < (node.end_lineno, node.end_col_offset)


def blocks_of(node: Any) -> Iterator[Tuple[Any, str, List[ast.stmt]]]:
    """(owner, name, statements) of all blocks of a compound statement, functions' aside."""
    if isinstance(node, (*SCOPES, _TRY_STAR)):
        return
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if block:
            yield node, name, block
    for name in ("handlers", "cases"):
        for part in getattr(node, name, None) or ():
            yield part, "body", part.body


_TRY_STAR: Any = getattr(ast, "TryStar", ast.Lambda)  # 3.11


def path_to(body: List[ast.stmt], position: Position) -> Optional[Path]:
    """The way to the innermost statement at `position`, or None where none stands there."""
    path: Path = []
    found: Optional[Tuple[Any, str, List[ast.stmt]]] = (None, "body", body)
    while found is not None:
        owner, name, block = found
        at = next((i for i, one in enumerate(block) if contains(one, position)), None)
        if at is None:
            return path or None
        path.append(Step(block, at, owner, name))
        inner = blocks_of(block[at])
        found = next((f for f in inner if any(contains(one, position) for one in f[2])), None)
    return path


def statement_at_line(body: List[ast.stmt], line: int) -> Optional[Path]:
    """The way to the first statement that begins on `line`, or to the innermost one around it."""
    starts = [
        begin_of(node)
        for node in own_statements(body)
        if isinstance(node, ast.stmt) and begin_of(node)[0] == line
    ]
    if starts:
        return path_to(body, min(starts))
    around = [
        node
        for node in own_statements(body)
        if isinstance(node, ast.stmt) and begin_of(node)[0] <= line <= (node.end_lineno or 0)
    ]
    return path_to(body, begin_of(around[-1])) if around else None


def positions(code: types.CodeType) -> Dict[int, Tuple[Any, Any, Any, Any]]:
    """Offset in bytes of each instruction -> (line, end line, column, end column)."""
    return {2 * i: place for i, place in enumerate(code.co_positions())}


def place_of(code: types.CodeType, offset: int) -> Optional[Position]:
    """Where in the text the instruction at `offset` comes from."""
    import itertools

    line, _, column, _ = next(
        itertools.islice(code.co_positions(), max(0, offset) // 2, None), (None,) * 4
    )
    return None if line is None else (line, column or 0)
