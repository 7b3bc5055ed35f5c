"""Which loops of a program train, told from its text."""

from __future__ import annotations

import ast
import zlib
from typing import List, Optional, Set

from paramedic._syntax import last_name
from paramedic.recovery.source import FUNCTIONS, LOOPS, Source, children_of


def loop_id(file: str, key: int, slot: int) -> int:
    """See `Transform.loop_id`; unique among the files of a job, as far as a checksum can be."""
    return zlib.crc32(file.encode("utf-8", "surrogateescape")) << 24 | key << 10 | slot


def trains(stmts: List[ast.stmt], names: Set[str]) -> bool:
    """Whether a block takes a training step itself, loops inside it aside."""
    stack: List[ast.AST] = list(stmts)
    while stack:
        node = stack.pop()
        if isinstance(node, (*LOOPS, *FUNCTIONS, ast.Lambda, ast.ClassDef)):
            continue
        if isinstance(node, ast.Call) and (is_training_call(node) or _name_of(node.func) in names):
            return True
        stack.extend(children_of(node))
    return False


def is_training_call(node: ast.Call) -> bool:
    """`loss.backward()`, `optimizer.step()`, `torch.autograd.grad()` and their like."""
    if not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr == "backward":
        return True
    owner = _name_of(node.func.value).lower()
    if node.func.attr == "grad":
        return owner == "autograd"
    parts = ("opt", "scaler", "engine", "accelerator")
    return node.func.attr == "step" and any(part in owner for part in parts)


def _name_of(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript):
        node = node.value
    return last_name(node)


def steppers(source: Source) -> Set[str]:
    """The names of the file's functions that take one training step, called from a loop."""
    kept: Optional[Set[str]] = source.facts.get("steppers")
    if kept is not None:
        return kept
    found: Set[str] = set()
    if any(word in source.text for word in (b".backward", b".step", b"autograd")):
        for _ in range(3):  # through as many functions that only call one another
            before = len(found)
            for function in source.functions[1:]:
                if function.name not in found and trains(function.body, found):
                    found.add(function.name)
            if len(found) == before:
                break
    found -= {"step", "backward", "main", "__init__", "__call__"}
    source.facts["steppers"] = found
    return found
