"""Functions that somebody else compiles from their bytecode or text: they stay as written."""

from __future__ import annotations

import ast
from typing import Any, Dict, Optional

from paramedic.recovery.source import Function, Source, own_nodes

# By the beginning of a decorator's, or a called function's, full name.
COMPILERS = (
    "numba.",
    "torch.jit.",
    "triton.",
    "tensorflow.function",
    "taichi.",
    "cython.",
    "mypyc.",
)
_ROOTS = tuple(name.split(".")[0].encode() for name in COMPILERS)


def mark(source: Source) -> Dict[str, str]:
    """Sets `left_alone` of what is decorated by a compiler, or given to one in this file.

    Returns:
        Qualified names, with the compiler of each.
    """
    if not any(root in source.text for root in _ROOTS):
        return {}
    names = _imported(source)
    found: Dict[str, str] = {}
    for function in source.functions[1:]:
        decorators = getattr(function.node, "decorator_list", ())
        by = next(filter(None, (_compiler(one, names) for one in decorators)), None)
        if by is not None:
            _leave(function, by, found)
    for function in source.functions:
        for node in own_nodes(function.body):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            by = _compiler(node.func, names)
            target: Any = node.args[0]
            if by is None or not isinstance(target, ast.Name):
                continue
            for other in source.functions[1:]:
                if other.name == target.id:
                    _leave(other, by, found)
    return found


def _leave(function: Function, by: str, found: Dict[str, str]) -> None:
    function.left_alone = True
    found[function.qualname] = by


def _imported(source: Source) -> Dict[str, str]:
    """What the names that the file imports stand for in full."""
    found: Dict[str, str] = {}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                name = one.name if one.asname else one.name.split(".")[0]
                found[one.asname or name] = name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for one in node.names:
                found[one.asname or one.name] = f"{node.module}.{one.name}"
    return found


def _compiler(node: ast.expr, names: Dict[str, str]) -> Optional[str]:
    if isinstance(node, ast.Call):
        return _compiler(node.func, names)
    parts = []
    current: Any = node
    while isinstance(current, ast.Attribute):
        parts.append(current.attr)
        current = current.value
    if not isinstance(current, ast.Name):
        return None
    full = ".".join([names.get(current.id, current.id), *reversed(parts)])
    return full if full.startswith(COMPILERS) else None
