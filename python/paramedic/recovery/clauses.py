"""Whether an `except` clause or an `__exit__` of the project keeps an exception.

A clause like `if "out of memory" in str(error): continue` with a `raise` behind it handles some
exceptions and gives back the others. Its conditions are worked out beforehand, as far as that runs
none of the job's code and has no effect; where it is not possible nothing is answered.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import operator
import types
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple, Type

from paramedic.recovery import runtime as runtime_of
from paramedic.recovery.source import begin_of, own_statements, place_of

MAX_STATEMENTS = 100

_COMPARISONS: Dict[Type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda one, others: one in others,
    ast.NotIn: lambda one, others: one not in others,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
_SUMS: Dict[Type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
}
_PLAIN = (str, bytes, int, float, bool, type(None))
_CALLS: Dict[str, Any] = {"str": str, "repr": repr, "type": type}
_OF_TYPES: Dict[str, Any] = {"isinstance": isinstance, "issubclass": issubclass}
_TEXT_METHODS = ("lower", "upper", "casefold", "strip", "startswith", "endswith")
_OF_ERRORS = ("args", "errno", "strerror", "filename", "code")
_LEAVES = (ast.Raise, ast.Return, ast.Continue, ast.Break, ast.Try, ast.Assert)


class _Unknown(Exception):
    """It cannot be worked out without running the job's code."""


def outcome(frame: types.FrameType, offset: int, error: BaseException) -> Optional[str]:
    """How the clause whose test starts at `offset` ends for `error`.

    Returns:
        "swallows", "raises" (the same again), "translates" (into another), or None where that
        cannot be told.
    """
    runtime = runtime_of.of_code(frame.f_code)
    function = runtime.source.of_code(frame.f_code) if runtime is not None else None
    place = place_of(frame.f_code, offset)
    if function is None or place is None:
        return None
    for node in own_statements(function.body):
        if isinstance(node, ast.ExceptHandler) and node.type is not None:
            end = (node.type.end_lineno or 0, node.type.end_col_offset or 0)
            if begin_of(node.type) <= place < end:
                known = {} if node.name is None else {node.name: error}
                scopes = (known, frame.f_locals, frame.f_globals, frame.f_builtins)
                return _Way(node.body, scopes, error).outcome(node.name)
    return None


def exit_value(
    body: List[ast.stmt], known: Dict[str, Any], scope: Dict[str, Any], error: BaseException
) -> Optional[bool]:
    """The truth of what an `__exit__` answers; None where that cannot be told.

    Args:
        body: its statements.
        known: its parameters.
        scope: the globals of its module.
        error: what it is asked about.
    """
    return _Way(body, (known, scope, vars(builtins)), error).value()


class _Way:
    """The way through a block of statements."""

    def __init__(
        self, body: List[ast.stmt], scopes: Tuple[Mapping[str, Any], ...], error: BaseException
    ) -> None:
        self._body = body
        self._scopes = scopes
        self._error = error
        self._answers: Optional[ast.expr] = None
        self._name_of_error: Optional[str] = None
        # What is bound on the way is not known.
        self._bound = {
            name.id
            for name in ast.walk(ast.Module(body, []))
            if isinstance(name, ast.Name) and not isinstance(name.ctx, ast.Load)
        }
        self._left = MAX_STATEMENTS

    def outcome(self, name: Optional[str]) -> Optional[str]:
        """See `outcome`; `name` is that of the exception."""
        self._name_of_error = name
        if name in self._bound:
            return None
        try:
            return self._block(self._body) or "swallows"
        except (_Unknown, TypeError, ValueError):
            return None

    def value(self) -> Optional[bool]:
        """See `exit_value`."""
        try:
            ends = self._block(self._body)
            if ends in ("raises", "translates") or self._answers is None:
                return False
            return self._truth(self._answers)
        except (_Unknown, TypeError, ValueError):
            return None

    def _block(self, statements: List[ast.stmt]) -> Optional[str]:
        """How a block ends; None where it goes on behind its end."""
        for node in statements:
            self._left -= 1
            if self._left < 0:
                raise _Unknown
            if isinstance(node, ast.If):
                ends = self._block(node.body if self._truth(node.test) else node.orelse)
                if ends is not None:
                    return ends
            elif isinstance(node, ast.Raise):
                again = node.exc is None or (
                    isinstance(node.exc, ast.Name) and node.exc.id == self._name_of_error
                )
                return "raises" if again else "translates"
            elif isinstance(node, (ast.Return, ast.Continue, ast.Break)):
                self._answers = getattr(node, "value", None)
                return "swallows"
            elif any(isinstance(one, _LEAVES) for one in ast.walk(node)):
                raise _Unknown
        return None

    def _truth(self, node: ast.expr) -> bool:
        value = self._value(node)
        if type(value) in (*_PLAIN, tuple, list, set, dict):
            return bool(value)
        raise _Unknown

    def _value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self._name(node.id)
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            return tuple(self._value(one) for one in node.elts)
        if isinstance(node, ast.BoolOp):
            return self._joined(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return not self._truth(node.operand)
        if isinstance(node, ast.Compare):
            return self._compared(node)
        if isinstance(node, ast.BinOp) and type(node.op) in _SUMS:
            return self._sum(node)
        if isinstance(node, ast.Attribute):
            return self._attribute(self._value(node.value), node.attr)
        if isinstance(node, ast.Subscript):
            return self._item(self._value(node.value), self._value(node.slice))
        if isinstance(node, ast.Call) and not node.keywords:
            return self._called(node)
        raise _Unknown

    def _name(self, name: str) -> Any:
        if name in self._bound:
            raise _Unknown
        for scope in self._scopes:
            if name in scope:
                return scope[name]
        raise _Unknown

    def _joined(self, node: ast.BoolOp) -> bool:
        stops = isinstance(node.op, ast.Or)
        for one in node.values:
            if self._truth(one) is stops:
                return stops
        return not stops

    def _sum(self, node: ast.BinOp) -> Any:
        left, right = self._value(node.left), self._value(node.right)
        if type(left) is not int or type(right) is not int:
            raise _Unknown
        return _SUMS[type(node.op)](left, right)

    def _compared(self, node: ast.Compare) -> bool:
        left = self._value(node.left)
        for test, one in zip(node.ops, node.comparators):
            right = self._value(one)
            is_identity = isinstance(test, (ast.Is, ast.IsNot))
            plain = type(left) in _PLAIN and type(right) in (*_PLAIN, tuple)
            if type(test) not in _COMPARISONS or not (plain or is_identity):
                raise _Unknown
            if not _COMPARISONS[type(test)](left, right):
                return False
            left = right
        return True

    def _attribute(self, value: Any, name: str) -> Any:
        if value is self._error and name in _OF_ERRORS:
            found = getattr(type(value), name, None)
            is_of_c = isinstance(found, (types.MemberDescriptorType, types.GetSetDescriptorType))
            if is_of_c or name in getattr(value, "__dict__", {}):
                return getattr(value, name)
        elif isinstance(value, types.ModuleType) and name in vars(value):
            return vars(value)[name]
        elif isinstance(value, type) and name == "__name__":
            return value.__name__
        else:
            found = inspect.getattr_static(value, name, _Unknown)
            if type(found) in _PLAIN:
                return found
        raise _Unknown

    def _item(self, value: Any, index: Any) -> Any:
        if type(value) in (tuple, str) and type(index) is int and -len(value) <= index < len(value):
            return value[index]
        raise _Unknown

    def _called(self, node: ast.Call) -> Any:
        function = node.func
        arguments = [self._value(one) for one in node.args]
        if isinstance(function, ast.Attribute) and function.attr in _TEXT_METHODS:
            text = self._value(function.value)
            if type(text) is str and all(type(one) in (str, tuple) for one in arguments):
                return getattr(text, function.attr)(*arguments)
        elif isinstance(function, ast.Name) and len(arguments) in (1, 2):
            called = self._name(function.id)
            if called is _OF_TYPES.get(function.id, _Unknown):
                return called(*arguments)
            if called is _CALLS.get(function.id, _Unknown) and _has_plain_text(arguments[0]):
                return called(*arguments)
        raise _Unknown


def _has_plain_text(value: Any) -> bool:
    """Whether the text of a value comes without the job's code."""
    texts = (type(value).__str__, type(value).__repr__)
    return not any(isinstance(one, types.FunctionType) for one in texts) and (
        type(value) in _PLAIN or isinstance(value, BaseException)
    )
