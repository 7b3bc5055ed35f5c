"""Lines of the job's own files that may treat one rank unlike the others.

Read from the source, once, when a job of several ranks begins to train: statements under a
condition on the rank, or with the rank among their arguments, that draw random numbers, change
weights or gradients, or set an optimizer; and in loops those that change or exchange gradients, set
rates, or go around a wrapper. They prove nothing. When ranks have parted they are where to look,
and the condition, as far as it can be worked out from plain numbers, tells for whom it holds.
"""

import ast
import copy
import linecache
import re
from types import FrameType
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

from paramedic._syntax import last_name
from paramedic.adapters.common.source import Source, where
from paramedic.adapters.torch.session import Session

MAX_FILES = 8
MAX_BRANCHES = 40
MAX_SOURCE_LINES = 20_000

_RANK = re.compile(r"(^|_)(rank|is_main|is_master|is_leader|main_process)(_|$)")
_RANDOM = {
    "bernoulli", "choice", "dropout", "manual_seed", "multinomial", "permutation", "rand",
    "rand_like", "randint", "randn", "randn_like", "random_split", "randperm", "sample", "seed",
    "shuffle",
}  # fmt: skip
_RATES = {"lr", "weight_decay", "momentum", "betas", "eps"}
_CLIPS = {"clip_grad_norm_", "clip_grad_value_", "unscale_"}
_EXCHANGES = {"all_gather", "all_reduce", "broadcast", "reduce", "reduce_scatter"}
# What is told without a rank too, in loops.
_ANYWHERE = {"bypass", "gradient", "rate"}
_COMPOUND = (
    ast.AsyncFor, ast.AsyncFunctionDef, ast.AsyncWith, ast.ClassDef, ast.For, ast.FunctionDef,
    ast.If, ast.Try, ast.While, ast.With,
)  # fmt: skip
_NO_CHANGE = {"requires_grad_", "zero_grad_", "share_memory_", "pin_memory_"}


class RankBranches:
    """Finds the lines and tells them, once a process."""

    def __init__(self, session: Session, source: Source) -> None:
        self._session = session
        self._source = source
        self._told = False
        session.on_fork.append(self._forget)

    def tell(self, start: Optional[FrameType]) -> None:
        """Reads the files of the user's frames from `start` outwards, and tells what is there."""
        if self._told:
            return
        self._told = True
        branches: List[Dict[str, Any]] = []
        seen: Set[str] = set()
        frame = start
        while frame is not None and len(seen) < MAX_FILES:
            filename = frame.f_code.co_filename
            if filename not in seen and self._source.is_user(frame.f_code):
                seen.add(filename)
                values = {
                    "get_rank()": self._session.rank,
                    "get_world_size()": self._session.world_size,
                }
                values.update(_values(frame, filename))
                branches.extend(find(filename, values))
            frame = frame.f_back
        if branches:
            branches.sort(key=lambda branch: not branch["of_rank"])
            self._session.event("rank_branches", {"branches": branches[:MAX_BRANCHES]})

    def _forget(self) -> None:
        self._told = False


def find(filename: str, values: Dict[str, Any]) -> Iterator[Dict[str, Any]]:
    """The lines of one file, each with what it does and for whom its condition holds."""
    lines = linecache.getlines(filename)
    if not lines or len(lines) > MAX_SOURCE_LINES:
        return
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError):
        return
    functions = _functions(tree)
    for function, statement, taken, of_rank, in_loop in _statements(tree, values):
        kinds = _kinds(statement)
        named = _names_rank(statement)
        if of_rank and not kinds:
            kinds = _kinds_of_called(statement, functions)
        if not kinds or not (of_rank or named or (in_loop and kinds & _ANYWHERE)):
            continue
        yield {
            "where": where((filename, statement.lineno, function)),
            "kinds": sorted(kinds),
            "of_rank": of_rank or named,
            "taken": taken,
        }


_Found = Tuple[str, ast.stmt, Optional[bool], bool, bool]


def _statements(tree: ast.AST, values: Dict[str, Any]) -> Iterator[_Found]:
    """(function, statement, whether its conditions on the rank hold, whether it has any, whether it
    is in a loop) of all simple statements."""
    pending: List[Tuple[ast.AST, str, Optional[bool], bool, bool]] = [
        (tree, "<module>", True, False, False)
    ]
    while pending:
        node, function, taken, of_rank, in_loop = pending.pop()
        if isinstance(node, ast.If) and _names_rank(node.test):
            holds = _truth(node.test, values)
            for part, value in ((node.body, holds), (node.orelse, _negated(holds))):
                both = _both(taken, value)
                pending.extend((child, function, both, True, in_loop) for child in reversed(part))
            continue
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            function = node.name
        inside = in_loop or isinstance(node, (ast.For, ast.While, ast.AsyncFor))
        children = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
        for handler in getattr(node, "handlers", ()):
            children.extend(handler.body)
        if isinstance(node, ast.stmt) and not children:
            yield function, node, taken, of_rank, in_loop
        pending.extend((child, function, taken, of_rank, inside) for child in reversed(children))


def _kinds(statement: ast.stmt) -> Set[str]:
    """What a simple statement may do: random, weights, gradient, rate, bypass."""
    kinds: Set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Call):
            kinds |= _call_kinds(node)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if node.attr == "grad":
                kinds.add("gradient")
            elif node.attr in ("data", "weight", "bias"):
                kinds.add("weights")
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            key = getattr(node.slice, "value", node.slice)  # Python 3.8 wraps it in an Index
            if getattr(key, "value", key) in _RATES:
                kinds.add("rate")
    if isinstance(statement, ast.AugAssign) and _mentions(statement.target, "grad"):
        kinds.add("gradient")
    return kinds


def _functions(tree: ast.AST) -> Dict[str, Set[str]]:
    """What the functions and methods of the file may do to weights, gradients or rates, by name.

    Random numbers are no matter here: nearly everything draws some.
    """
    found: Dict[str, Set[str]] = {}
    for node in ast.walk(tree):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        kinds = found.setdefault(node.name, set())
        for inner in ast.walk(node):
            if isinstance(inner, ast.stmt) and not isinstance(inner, _COMPOUND):
                kinds |= _kinds(inner) - {"random"}
    return found


def _kinds_of_called(statement: ast.stmt, functions: Dict[str, Set[str]]) -> Set[str]:
    kinds: Set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Call):
            kinds |= functions.get(last_name(node.func), set())
    return kinds


def _call_kinds(call: ast.Call) -> Set[str]:
    kinds: Set[str] = set()
    name = last_name(call.func)
    if name in _RANDOM or (name.endswith("_") and name in ("normal_", "uniform_", "random_")):
        kinds.add("random")
    if name in _CLIPS:
        kinds.add("gradient")
    elif name.endswith("_") and not name.startswith("_") and name not in _NO_CHANGE:
        kinds.add("gradient" if _mentions(call.func, "grad") else "weights")
    if name in ("load_state_dict", "vector_to_parameters"):
        kinds.add("weights")
    if name in ("requires_grad_", "add_param_group") or any(
        keyword.arg in _RATES for keyword in call.keywords
    ):
        kinds.add("rate")
    if name == "step" and "sched" in ast.dump(call.func).lower():
        kinds.add("rate")
    if name in ("module", "no_sync"):
        kinds.add("bypass")
    if name in _EXCHANGES and any(_mentions(argument, "grad") for argument in call.args):
        kinds.add("gradient")
    return kinds


def _mentions(node: ast.AST, attribute: str) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr == attribute for n in ast.walk(node))


def _names_rank(node: ast.AST) -> bool:
    for inner in ast.walk(node):
        name = last_name(inner)
        if name and _RANK.search(name.lower()):
            return True
    return False


def _truth(test: ast.AST, values: Dict[str, Any]) -> Optional[bool]:
    """Whether a condition holds in this process; None where that depends on more than numbers."""
    if isinstance(test, ast.BoolOp):
        lasting = [part for part in test.values if _names_rank(part) or _is_flag(part, values)]
        parts = [_truth(part, values) for part in lasting]
        decisive = isinstance(test.op, ast.Or)
        if decisive in parts:
            return decisive
        # What changes (the step) may hold at some time.
        is_open = decisive and len(parts) < len(test.values)
        return None if is_open or None in parts else not decisive
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _negated(_truth(test.operand, values))
    plain = _Plain(values).visit(copy.deepcopy(test))
    for node in ast.walk(plain):
        if isinstance(node, (ast.Call, ast.Attribute, ast.Subscript, ast.NamedExpr)):
            return None
    try:
        code = compile(ast.fix_missing_locations(ast.Expression(plain)), "<condition>", "eval")
        # Numbers, names of numbers, and operators: nothing of the job's is called.
        return bool(eval(code, {"__builtins__": {}}, values))
    except Exception:
        return None


def _is_flag(test: ast.AST, values: Dict[str, Any]) -> bool:
    """Whether a condition is made of names of True and False alone, which rarely change."""
    names = [node.id for node in ast.walk(test) if isinstance(node, ast.Name)]
    return bool(names) and all(isinstance(values.get(name), bool) for name in names)


class _Plain(ast.NodeTransformer):
    """Puts the number in place of `get_rank()`, `get_world_size()` and `args.rank`."""

    def __init__(self, values: Dict[str, Any]) -> None:
        self._values = values

    def visit_Call(self, node: ast.Call) -> ast.AST:
        return self._number(node, f"{last_name(node.func)}()")

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return self._number(node, f"{last_name(node.value)}.{node.attr}")

    def _number(self, node: ast.AST, key: str) -> ast.AST:
        return ast.Constant(self._values[key]) if key in self._values else node


def _values(frame: FrameType, filename: str) -> Dict[str, Any]:
    """The plain numbers that the code of a file can name here."""
    values: Dict[str, Any] = {}
    current: Optional[FrameType] = frame
    while current is not None:
        if current.f_code.co_filename == filename:
            for scope in (current.f_locals, current.f_globals):
                for name, value in list(scope.items()):
                    _note(values, name, value)
        current = current.f_back
    return values


def _note(values: Dict[str, Any], name: str, value: Any) -> None:
    if type(value) in (int, bool):
        values.setdefault(name, value)
    elif not isinstance(value, type(ast)):
        try:
            attributes = vars(value)
        except TypeError:
            return
        for attribute, number in list(attributes.items()):
            if type(number) in (int, bool) and _RANK.search(str(attribute).lower()):
                values.setdefault(f"{name}.{attribute}", number)


def _negated(value: Optional[bool]) -> Optional[bool]:
    return None if value is None else not value


def _both(one: Optional[bool], other: Optional[bool]) -> Optional[bool]:
    if one is False or other is False:
        return False
    return None if one is None or other is None else True
