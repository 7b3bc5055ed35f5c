"""Expressions of an `__init__` that can be evaluated later, for an object that exists already."""

from __future__ import annotations

import ast
import collections
import sys
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

from paramedic.recovery.source import FUNCTIONS, Function, Source, own_nodes

_PLAIN = (
    *(ast.Constant, ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Starred, ast.keyword),
    *(ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call, ast.comprehension),
    *(ast.List, ast.Tuple, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.DictComp),
    *(ast.JoinedStr, ast.FormattedValue),
    *(ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context),
)
_COMPUTE = (
    *(bool, bytes, complex, dict, float, frozenset, int, list, range, set, str, tuple),
    *(abs, len, max, min, round, sorted, sum, zip, enumerate, reversed),
    *(collections.Counter, collections.OrderedDict, collections.defaultdict, collections.deque),
)
_TENSORS = ("arange", "eye", "full", "linspace", "ones", "tensor", "zeros")
# Modules of torch.nn whose classes have neither weights nor random numbers when they are made.
_LAYERS = ("activation", "dropout", "flatten", "loss", "pooling")
_LAYERS_WITH_WEIGHTS = ("MultiheadAttention", "PReLU")
_REGISTER = ("register_buffer", "register_parameter", "register_module", "add_module")


def self_of(function: Function) -> Optional[str]:
    """What a method calls its object."""
    node: Any = function.node
    if isinstance(node, ast.Module) or "." not in function.qualname:
        return None
    named = [*node.args.posonlyargs, *node.args.args]
    return named[0].arg if named else None


def stores(function: Function) -> Iterator[Tuple[str, ast.stmt]]:
    """The attributes that a method sets on its object, each with its statement."""
    owner = self_of(function)
    for statement in _statements(function.body):
        for node in _of_statement(statement):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                if isinstance(node.value, ast.Name) and node.value.id == owner:
                    yield node.attr, statement
            elif isinstance(node, ast.Call) and _registers(node, owner):
                name: Any = node.args[0]
                yield name.value, statement


def _statements(block: Any) -> Iterator[ast.stmt]:
    for node in own_nodes(block):
        if isinstance(node, ast.stmt) and not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            yield node


def _of_statement(statement: ast.stmt) -> Iterator[ast.AST]:
    """Its own expressions, those of statements inside it left out."""
    for child in ast.iter_child_nodes(statement):
        if not isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            yield from ast.walk(child)


def _registers(call: ast.Call, owner: Optional[str]) -> bool:
    function, first = call.func, call.args[0] if call.args else None
    return (
        isinstance(function, ast.Attribute)
        and function.attr in _REGISTER
        and isinstance(function.value, ast.Name)
        and function.value.id == owner
        and isinstance(first, ast.Constant)
        and isinstance(first.value, str)
    )


class Plain(ast.NodeTransformer):
    """Makes an expression of `__init__` one over its object and names of the module alone."""

    def __init__(self, before: Source, now: Function, scope: Dict[str, Any]) -> None:
        node: Any = now.node
        self._owner = str(self_of(now))
        self._scope = scope
        self._parameters = _parameters(now)
        self._new: Dict[str, Optional[ast.expr]] = {}  # parameters that nobody can have given
        self._kept: Dict[str, str] = {}  # the attribute that a parameter still stands in
        old = before.find(now.qualname)
        if old is not None:
            known = _parameters(old)
            self._new = {k: v for k, v in self._parameters.items() if k not in known}
            self._kept = _kept(before, old)
        stored = (n for n in own_nodes(node.body) if isinstance(n, ast.Name))
        self._stored = {n.id for n in stored if not isinstance(n.ctx, ast.Load)}
        self._inner: Set[str] = set()

    def of(self, value: ast.expr) -> Optional[ast.expr]:
        """None where it is not plain."""
        copied: Any = ast.parse(ast.unparse(value), mode="eval").body
        self._inner = {
            name.id
            for node in ast.walk(copied)
            if isinstance(node, ast.comprehension)
            for name in ast.walk(node.target)
            if isinstance(name, ast.Name)
        }
        try:
            made: ast.expr = self.visit(copied)
        except _NotPlain:
            return None
        return ast.fix_missing_locations(made)

    def visit(self, node: ast.AST) -> Any:
        """Each node."""
        if not isinstance(node, _PLAIN):
            raise _NotPlain
        return super().visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        """`self.x`, or something of a module."""
        if isinstance(node.value, ast.Name) and node.value.id == self._owner:
            return node
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> Any:
        """Only of what computes and nothing else."""
        if not _computes(_looked_up(node.func, self._scope)):
            raise _NotPlain
        # A generator that is used up at once is a value like any other.
        arguments: List[Any] = [*node.args]
        for at, one in enumerate(arguments):
            is_generator = isinstance(one, ast.GeneratorExp)
            arguments[at] = self.generic_visit(one) if is_generator else self.visit(one)
        node.args = arguments
        node.keywords = [self.visit(one) for one in node.keywords]
        return node

    def visit_Name(self, node: ast.Name) -> Any:
        """A name of the module, of a comprehension, or a parameter that can still be told."""
        name = node.id
        if name in self._inner:
            return node
        if name in self._stored or name == self._owner:
            raise _NotPlain
        if name in self._parameters:
            if name in self._kept:
                return ast.Attribute(ast.Name(self._owner, ast.Load()), self._kept[name], node.ctx)
            default = self._new.get(name)
            if default is None:
                raise _NotPlain
            return self.visit(ast.parse(ast.unparse(default), mode="eval").body)
        if name not in self._scope and name not in _builtins(self._scope):
            raise _NotPlain
        return node


class _NotPlain(Exception):
    pass


def _parameters(function: Function) -> Dict[str, Optional[ast.expr]]:
    """The parameters of a method but the first, with their defaults."""
    node: Any = function.node
    named = [*node.args.posonlyargs, *node.args.args]
    defaults = [None] * (len(named) - len(node.args.defaults)) + [*node.args.defaults]
    found = {one.arg: value for one, value in zip(named, defaults)}
    found.update({o.arg: v for o, v in zip(node.args.kwonlyargs, node.args.kw_defaults)})
    for more in (node.args.vararg, node.args.kwarg):
        if more is not None:
            found[more.arg] = None
    found.pop(named[0].arg, None)
    return found


def _kept(source: Source, before: Function) -> Dict[str, str]:
    """The parameters that the old `__init__` has put into an attribute which nobody else sets."""
    found: Dict[str, str] = {}
    parameters = _parameters(before)
    for name, statement in stores(before):
        value = getattr(statement, "value", None)
        is_top = any(statement is top for top in before.body)
        if is_top and isinstance(value, ast.Name) and value.id in parameters:
            found[value.id] = name
    own = (node for node in own_nodes(before.body) if isinstance(node, ast.Name))
    changed = {node.id for node in own if not isinstance(node.ctx, ast.Load)}
    sets = collections.Counter(
        node.attr
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)
    )
    return {p: name for p, name in found.items() if p not in changed and sets[name] == 1}


def _looked_up(node: ast.expr, scope: Dict[str, Any]) -> Any:
    """What a name of the module, or an attribute of one, stands for."""
    if isinstance(node, ast.Name):
        return scope.get(node.id, _builtins(scope).get(node.id))
    if isinstance(node, ast.Attribute):
        owner = _looked_up(node.value, scope)
        return vars(owner).get(node.attr) if isinstance(owner, type(sys)) else None
    return None


def _builtins(scope: Dict[str, Any]) -> Dict[str, Any]:
    found: Any = scope.get("__builtins__", {})
    return found if isinstance(found, dict) else vars(found)


def _computes(function: Any) -> bool:
    if any(function is one for one in _COMPUTE):
        return True
    torch: Any = sys.modules.get("torch")
    if torch is None or function is None:
        return False
    if any(function is getattr(torch, name, None) for name in _TENSORS):
        return True
    home = str(getattr(function, "__module__", "")).rpartition(".")
    is_layer = isinstance(function, type) and home[0] == "torch.nn.modules"
    return is_layer and home[2] in _LAYERS and function.__name__ not in _LAYERS_WITH_WEIGHTS
